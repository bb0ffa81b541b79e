//! Words and phrases that are archaic, vague or coined, each with plain ones.

/// Phrases of one kind, what to write instead, and a text with and one without such a phrase.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) phrases: &'static [&'static str],
    pub(super) advice: &'static str,
    #[cfg(test)]
    pub(super) wrong: &'static str,
    #[cfg(test)]
    pub(super) right: &'static str,
}

macro_rules! entries {
    ($($name:literal [$($phrase:literal),*] $advice:literal $wrong:literal $right:literal)*) => {
        &[$(Entry {
            name: $name,
            phrases: &[$($phrase),*],
            advice: $advice,
            #[cfg(test)]
            wrong: $wrong,
            #[cfg(test)]
            right: $right,
        }),*]
    };
}

/// The entries. Each has a name, phrases, advice, a wrong text and a right one.
pub(super) const ENTRIES: &[Entry] = entries! {
    "whoever" ["whoever|whomever", "who asks|waits", "who decides"]
    "write who it is: the caller, a client, the server"
    "Whoever asks gets it." "The caller gets it."

    "nobody" ["nobody"]
    "write `no caller` or `no client`, or use the passive"
    "Nobody takes it." "No caller takes it."

    "somebody" ["somebody|anybody|everybody"]
    "write who it is: another caller, any process, all clients"
    "Somebody else may call." "Another process may call."

    "those who" ["those who|whom"]
    "name them, as in `waiters`"
    "It wakes those who wait." "It wakes the waiters."

    "of which" ["!regardless|irrespective|independent|independently|all|each|both|any|some|none|most|many|one|two of which|whom"]
    "write `whose`, or a second sentence"
    "States of which units are leased." "States whose units are leased, each of which expires."

    "is told" ["is|are|was|were|be|been|being told !to|apart", "unless|if|when|as|than|until told !to"]
    "write `receives`, `gets`, `is notified of`, `by default` or `if configured`"
    "The queue is told of it." "The queue is notified, and is told to end."

    "hears of" ["hear|hears|heard of", "get|gets|got to know"]
    "write `receives`, `is notified of` or `learns`"
    "It hears of the key." "It learns the key."

    "says of" ["say|says|said|saying of", "know|knows|knew|known of", "tell|tells|telling of"]
    "write `reports for each`, `stores about` or `knows`"
    "It knows of the key." "It stores the key."

    "what becomes of" ["what becomes|became of"]
    "write `its outcome` or `what happens to it`"
    "It shows what becomes of a hold." "It shows the outcome of a hold."

    "what is held" ["what is|was|are|were held|left|asked|taken|kept|used", "what is|was|are|were in flight", "what it|they|he holds|held|hold"]
    "name it: held units, requests in flight, the remainder, the request"
    "It lists what is held." "It lists the holds."

    "by hand" ["by hand"]
    "write `manually` or `explicitly`"
    "Bans are ended by hand." "Bans are ended manually."

    "is over" ["is|are|was|were over !a|an|the|its|their|this|each|all|#"]
    "write `has ended` or `expires`"
    "The window is over." "The window has ended: the rate is over 90 %."

    "lives" ["live|lives|lived on|for|until|till|as|longer|beyond", "how long * lives", "how long * * lives", "the|its|whole life"]
    "write `is valid for`, `expires after` or `the TTL`"
    "How long the ticket lives." "Lifetime of the ticket. The type lives in the module."

    "for ever" ["for ever"]
    "write `permanently` or `never expires`"
    "It waits for ever." "It never expires."

    "anew" ["anew|afresh"]
    "write `again` or `from scratch`"
    "It draws the plot anew." "It draws the plot again."

    "at once" ["at once"]
    "write `immediately`, or `at the same time`"
    "It fails at once." "It fails immediately."

    "by and by" ["by and by", "now and then", "once more", "for good !reason|reasons|measure"]
    "write `gradually`, the interval, `again` or `permanently`"
    "They are removed by and by." "They are removed gradually, for good reasons."

    "besides" ["besides|beside"]
    "write `also`, `in addition to`, `next to` or `compared with`"
    "It stands beside the key." "It is next to the key."

    "but for" ["nothing|none|anything but", "but for"]
    "write `except for` or `only`"
    "It has nothing but a key." "It has only a key."

    "whatever" ["whatever|whichever"]
    "write `regardless of` or `any`"
    "It ends whatever happens." "It ends in any event."

    "as ever" ["as ever|before"]
    "write `unchanged` or `as usual`"
    "It continues as before." "It continues unchanged."

    "so many" ["so many|long !that"]
    "write `that many`, `count` or `for that duration`"
    "So many units are left." "That many units remain, so many that all pass."

    "the least" ["!with|has|have|had|at the least|most !recent|recently|common|commonly|expensive|important|significant|likely|used|precise|specific|part"]
    "write `the minimum`, `the shortest` or `the maximum`"
    "It waits the least of both." "It waits the minimum. The most recent wins."

    "as many as may" ["as many as may|can|there|fit|it|they", "as far as can|there|possible", "as far as it|they can", "as many * as may"]
    "write `the maximum`, `up to N`, or name the bound"
    "Take as many as there are." "Up to ten wait."

    "is no number" ["!there|it's is|are|was|were|be no !longer|more|less|fewer|later|earlier|sooner|larger|smaller|better|worse", "!there|it is|are|was|were none"]
    "write `isn't a …`, `is invalid` or `doesn't exist`"
    "The port is no number." "The port isn't a number. There is no other."

    "may not" ["may not"]
    "write `must not`, `isn't permitted to` or `might not`"
    "It may not wait." "It must not wait."

    "is to be" ["is|are|was|were to be"]
    "write `must be` or `will be`"
    "The cost is to be charged." "The cost will be charged."

    "in any case" ["in any case"]
    "write `always` or `unconditionally`"
    "It charges in any case." "It always charges."

    "elsewhere" ["elsewhere"]
    "write where: on another node, in another store, otherwise"
    "It is stored elsewhere." "It is stored on another node."

    "let in" ["let|lets|letting in|through|go", "let|lets|letting * through|go", "let|lets|letting * in !flight|a|an|the|its"]
    "write `admit`, `accept` or `release`"
    "It lets nobody in." "It admits no caller. It lets requests in flight end."

    "leave alone" ["leave|leaves|left|leaving|let|lets alone", "leave|leaves|left|let it|them alone"]
    "write `skip`, `leave unchanged` or `stop calling`"
    "The store is left alone." "The store is skipped."

    "goes by" ["go|goes|went|going by|on"]
    "write `uses` or `continues`"
    "The service goes on." "The service continues."

    "ask a store" [
        "ask|asks|asked|asking a|an|the|its|that|this|one|another|each|every|no store|stores|server|servers|service|node|primary|replica|sentinel|sentinels|limiter",
        "ask|asks|asked|asking redis|sentinels|servers|again|stores",
        "the|a|each|every|one|first|next|another|no|same|of question|questions !mark|marks"
    ]
    "write `call the store`, `send a request`, `query` or `retry`"
    "It asks the store." "It calls the store."

    "answers for" ["answers|answered for !a|the|each|every|all", "stand|stands|stood in for"]
    "write `handles`, `replaces` or `takes over for`"
    "A share stands in for it." "A share replaces it."

    "judge" ["judge|judges|judged|judging|judgement|judgment"]
    "write `evaluate`; tests and auditors check"
    "The policies are judged." "The policies are evaluated."

    "dies" ["die|dies|died|drown|drowns|drowned", "is|are|was|were away|back !to|in|from|at"]
    "write `crashes`, `is down`, `is overloaded`, `is unreachable` or `has recovered`"
    "The server dies." "The server crashes."

    "comes again" ["come|comes|came|coming again"]
    "write `is retried` or `is repeated`"
    "A request comes again." "A request is retried."

    "travel together" ["travel|travels|travelled|traveling|travelling"]
    "write `are batched` or `are pipelined`"
    "Calls travel together." "Calls are batched."

    "lane" ["lane|lanes", "short|straight way|ways"]
    "write `the fast path`"
    "A lane decides it." "The fast path decides it."

    "the way to" ["!on the way to a|an|the|one|that server|servers|store|node|primary"]
    "write `the route`"
    "It is the way to one server." "It is the route to a server."

    "in line" ["place|places|stand|stands|stood|wait|waits|left|leaves|leave|joins|next|first|turn in line", "the line of"]
    "write `reservation queue`, `queue position` or `queue entry`"
    "It has a place in line." "It has a queue position, in line with the others."

    "handed on" ["handed|hands on", "turn|turns that is|are left"]
    "write `released` or `passed to the next caller`"
    "The turn is handed on." "The turn is passed to the next caller."

    "lapses" ["lapse|lapses|lapsed|barge|barges|barged|barging"]
    "write `expires unused` or `overtakes`"
    "The turn lapses." "The turn expires unused."

    "bell" ["bell|bells", "it|bell|which rings", "rings when|if|for|it", "is|are hung"]
    "write `notifier`, `wakes` or `is registered`"
    "A bell is hung." "A notifier is registered."

    "shelf" ["shelf|shelves"]
    "write `the held records of a key`"
    "It is on a shelf." "It is a record."

    "newcomers" ["newcomers"]
    "write `recent keys`"
    "It keeps newcomers." "It keeps recent keys."

    "errands" ["errand|errands"]
    "write `auxiliary commands`"
    "An errand of the script." "An auxiliary command."

    "twin" ["twin|twins"]
    "write `the Lua counterpart` or `the Lua port`"
    "Its twin is in Lua." "Its Lua counterpart."

    "words in capitals" ["in capitals"]
    "write `template constants`"
    "Words in capitals." "Template constants."

    "census" ["census"]
    "write `the process count`"
    "The census is late." "The process count is late."

    "debts" ["debts"]
    "write `pending charges`"
    "It charges debts." "It charges pending charges, into debt."

    "room" ["room"]
    "write `capacity`, `memory` or `a free slot`; a full store evicts"
    "It makes room." "It evicts a key."

    "door" ["door|doors"]
    "write `entry point` or `admission check`"
    "At the door." "At the entry point."

    "stays true" ["stay|stays|stayed|staying true"]
    "write `remains correct` or `is unchanged`"
    "It stays true." "It remains correct."

    "dice" ["dice"]
    "write `a seeded random generator`"
    "It throws dice." "It uses a seeded random generator."

    "first words" ["its|our|the|whose first words !of"]
    "write `the handshake`"
    "Its first words." "Its handshake."

    "wants and tells" ["want|wants and tell|tells"]
    "write `requests and reports`"
    "What it wants and tells." "Its requests and reports."

    "the middle one" ["the middle one"]
    "write `the median`"
    "It is the middle one." "It is the median."

    "misspelt" ["misspelt|spoilt"]
    "write `misspelled` or `corrupted`"
    "A misspelt name." "A misspelled name."

    "upon" ["upon|hence|lest|needn't"]
    "write `on`, `so`, `so that … not` or `doesn't need to`"
    "It needn't wait." "It doesn't need to wait."

    "nor does" ["nor do|does|did|is|are|was|were|has|have|can|will|may"]
    "write `and it doesn't`"
    "Nor does it wait." "It neither waits nor fails."

    "marketing" ["blazing|blazingly|powerful|simply|seamless|seamlessly", "just works"]
    "delete the adjective or write a number"
    "It is powerful." "It decides in 50 ns."

    "filler" ["note that !is", "in order to", "should be mentioned|noted", "basically"]
    "delete it"
    "Note that it waits." "It waits."

    "vague number" ["a few", "quickly", "half again", "half as * again"]
    "write the number"
    "It takes a few calls." "It takes three calls."
};
