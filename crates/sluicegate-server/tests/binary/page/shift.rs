//! A page that is open for a whole shift.
//!
//! A server replays the events of a real stream up to 48 times as fast, with advancing times and new keys. It forwards all
//! other requests to the real service. With `SLUICEGATE_SOAK=48` the page takes the events of 8 h, in 10 min on a free
//! machine. By default it takes those of 10 min.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate_testkit::wait::until_seldom;

use super::Site;
use super::browser::Browser;
use crate::event_stream::Stream;

/// Number of seconds that a second stands for.
const PACE: u32 = 48;
const LIMITS: u64 = 200;
/// Number of seconds after which the service ends a stream.
const LONGEST: u64 = 3_600;

/// The first events of a real stream.
struct Recorded {
    process: String,
    history: Value,
    now: Value,
    limits: Value,
    recent: Value,
}

/// A server that replays a stream, in front of a service.
struct Replay {
    recorded: Recorded,
    service: SocketAddr,
    /// Seconds that were replayed, and those that may be: a page on a busy machine must not lag behind.
    second: AtomicU64,
    most: AtomicU64,
}

impl Replay {
    /// Starts the server, and returns its address.
    fn start(self: &Arc<Self>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let replay = Arc::clone(self);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let replay = Arc::clone(&replay);
                // A browser may end a connection at any time.
                std::thread::spawn(move || replay.answer(client).ok());
            }
        });
        address
    }

    /// Answers the one request of a connection.
    fn answer(&self, client: TcpStream) -> std::io::Result<()> {
        client.set_nodelay(true)?;
        let mut reader = BufReader::new(client.try_clone()?);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        if head.starts_with("GET /v1/stream?") {
            let has_rows = !head.contains("count=0");
            return self.replay(client, has_rows, !head.contains("resume="));
        }
        let lines = head.trim_end().lines();
        let kept = lines.filter(|line| !line.to_lowercase().starts_with("connection:"));
        let mut forwarded = kept.collect::<Vec<_>>().join("\r\n");
        forwarded.push_str("\r\nConnection: close\r\n\r\n");
        let length = head.lines().find_map(|line| {
            line.to_lowercase().strip_prefix("content-length: ").and_then(|it| it.parse().ok())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body)?;
        let mut service = TcpStream::connect(self.service)?;
        service.write_all(&[forwarded.as_bytes(), &body].concat())?;
        std::io::copy(&mut service, &mut { client })?;
        Ok(())
    }

    fn replay(
        &self,
        mut client: TcpStream,
        has_rows: bool,
        mut is_whole: bool,
    ) -> std::io::Result<()> {
        client.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n",
        )?;
        for round in 0..LONGEST {
            while self.second.load(Ordering::Relaxed) >= self.most.load(Ordering::Relaxed) {
                std::thread::park_timeout(Duration::from_millis(5));
            }
            let second = self.second.fetch_add(1, Ordering::Relaxed);
            let events = self.events(second, round == 0, is_whole, has_rows);
            client.write_all(events.as_bytes())?;
            is_whole = false;
            std::thread::park_timeout(Duration::from_secs(1) / PACE);
        }
        client.write_all(b"event: bye\ndata: {\"reason\":\"too long\"}\n\n")
    }

    /// Returns the events of a second.
    fn events(&self, second: u64, is_first: bool, is_whole: bool, has_rows: bool) -> String {
        let mut events = String::new();
        let Recorded { process, history, now, limits, recent } = &self.recorded;
        let ends_step = is_first || second.is_multiple_of(10);
        if ends_step {
            let mut history = history.clone();
            history["whole"] = json!(is_whole);
            for (_, series) in history["series"].as_object_mut().unwrap() {
                let steps = series.as_array_mut().unwrap();
                steps.truncate(if is_whole { usize::MAX } else { 1 });
                steps.iter_mut().for_each(|step| *step = json!(second % 97));
            }
            let id = second / 10;
            let _ = write!(events, "event: history\nid: {process}-{id}\ndata: {history}\n\n");
        }
        let mut now = now.clone();
        now["name"] = json!(format!("second {second}"));
        now["uptime_ms"] = json!(second * 1_000);
        now["rates"]["allowed"] = json!(second % 1_009);
        now["rates"]["denied"] = json!(second % 503);
        now["store"]["keys"] = json!(second % 100_003);
        let _ = write!(events, "event: now\ndata: {now}\n\n");
        let mut limits = limits.clone();
        for (row, index) in limits["rows"].as_array_mut().unwrap().iter_mut().zip(0..) {
            // A limit is in the window for 50 steps.
            row["name"] = json!(format!("limit-{:03}", (index + second / 10) % LIMITS));
            row["rates"]["denied"] = json!((index + second) % 71);
            row["sums"]["denied"] = json!(second);
            for list in ["top_denied", "top_used"] {
                let key = |rank| json!({"key": format!("k{second}-{index}-{rank}"), "key_bytes": null, "count": second, "at_most_over": 0});
                row[list] = json!([key(0), key(1), key(2)]);
            }
            let fields = row.as_object_mut().unwrap();
            if ends_step {
                fields.insert("history".to_owned(), json!({"allowed": vec![second % 7; 90], "denied": vec![second % 5; 90], "shadow_denied": vec![0; 90]}));
            }
        }
        if !has_rows {
            limits["rows"] = json!([]);
        }
        let _ = write!(events, "event: limits\ndata: {limits}\n\n");
        let mut recent = recent.clone();
        let rows = recent["rows"].as_array_mut().unwrap();
        let count = rows.len() as u64;
        if !is_first {
            rows.truncate(4);
        }
        for (row, index) in rows.iter_mut().zip(0..) {
            let number = second * count + count - index;
            row["number"] = json!(number);
            row["age_ms"] = json!(index);
            row["key"] = json!(format!("k{number}"));
        }
        let _ = write!(events, "event: recent\ndata: {recent}\n\n");
        events
    }
}

/// The memory of the page after a collection.
#[derive(Clone, Copy, Debug)]
struct Memory {
    heap: f64,
    nodes: f64,
    listeners: f64,
    documents: f64,
}

impl Memory {
    fn of(browser: &mut Browser) -> Self {
        // Tasks of the browser free the parts that were closed last, and a later collection counts them.
        for _ in 0..3 {
            browser.eval("new Promise(done => requestAnimationFrame(() => setTimeout(done)))");
            browser.call("HeapProfiler.collectGarbage", json!({}));
        }
        let metrics = browser.call("Performance.getMetrics", json!({}))["metrics"].clone();
        let metric = |name: &str| {
            let metric = metrics.as_array().unwrap().iter().find(|it| it["name"] == name);
            metric.and_then(|it| it["value"].as_f64()).unwrap()
        };
        Self {
            heap: metric("JSHeapUsedSize"),
            nodes: metric("Nodes"),
            listeners: metric("JSEventListeners"),
            documents: metric("Documents"),
        }
    }

    /// Returns the lowest values of several measurements: those with the least that waits to be collected.
    fn least(all: &[Self]) -> Self {
        let least = |of: fn(&Self) -> f64| all.iter().map(of).fold(f64::MAX, f64::min);
        Self {
            heap: least(|it| it.heap),
            nodes: least(|it| it.nodes),
            listeners: least(|it| it.listeners),
            documents: least(|it| it.documents),
        }
    }
}

/// Opens each view and closes it again.
const OPERATOR: &str = "(async () => {
    const pause = () => new Promise(done => setTimeout(done, 60));
    const row = () => document.querySelector('tbody th button');
    row()?.click();
    await pause();
    document.querySelector('tbody th button[aria-expanded=true]')?.click();
    for (const place of ['decisions', 'config', 'what-if', 'key?limit=limit-001&key=mallory']) {
        location.hash = `#/${place}`;
        await pause();
        await pause();
    }
    location.hash = '#/';
    await pause();
    await pause();
})()";

#[test]
fn the_memory_of_the_page_stays_flat() {
    let mut text = String::from("limits:\n");
    for index in 0..LIMITS {
        let _ = writeln!(text, "  limit-{index:03}: {{policies: [gcra 5/h]}}");
    }
    let mut site = Site::start_with(&text, &[], 1600, 1000);
    for index in 0..LIMITS {
        site.check(&format!("limit-{index:03}"), "mallory", 6);
    }
    let mut stream = Stream::open(&site.service, "count=50&outcome=denied");
    let history = stream.next_named("history");
    let process = history.id.unwrap().split_once('-').unwrap().0.to_owned();
    let [now, limits, recent] =
        ["now", "limits", "recent"].map(|name| stream.next_named(name).data);
    drop(stream);
    assert_eq!(limits["rows"].as_array().unwrap().len(), 50);
    assert_eq!(recent["rows"].as_array().unwrap().len(), 100);
    let recorded = Recorded { process, history: history.data, now, limits, recent };
    let service = site.service.address();
    let replay = Arc::new(Replay {
        recorded,
        service,
        second: AtomicU64::new(0),
        most: AtomicU64::new(u64::from(PACE)),
    });
    let address = replay.start();

    let browser = &mut site.browser;
    browser.call("Performance.enable", json!({}));
    browser.open(&format!("http://{address}/"));
    browser.wait_for("#live", "live");
    let soak = std::env::var("SLUICEGATE_SOAK").map_or(1, |times| times.parse::<u64>().unwrap());
    let soak = soak.clamp(1, 48);
    let seconds = 600 * soak;
    let mut measured = Vec::new();
    let mut turn = 0;
    while measured.len() < 12 {
        // An operator looks at the page a hundred times.
        if u64::is_multiple_of(turn, soak.div_ceil(8)) {
            browser.eval(OPERATOR);
        }
        turn += 1;
        let wanted = replay.most.load(Ordering::Relaxed);
        until_seldom("the page has taken the events", || {
            let shown = browser
                .eval("document.querySelector('.about').innerText.match(/^second ([0-9]+)/)?.[1]");
            let shown = shown.as_str().and_then(|shown| shown.parse::<u64>().ok());
            if shown >= Some(wanted - 1) {
                return Ok(());
            }
            // The last ones may have been sent on a connection that the page has closed.
            if replay.second.load(Ordering::Relaxed) >= replay.most.load(Ordering::Relaxed) {
                replay.most.fetch_add(1, Ordering::Relaxed);
            }
            Err(shown)
        });
        let second = replay.second.load(Ordering::Relaxed);
        if second * 12 >= seconds * (measured.len() as u64 + 1) {
            let memory = Memory::of(browser);
            println!("second {second}: {memory:?}");
            measured.push(memory);
        }
        replay.most.fetch_add(u64::from(PACE), Ordering::Relaxed);
    }
    let [third, last] = [6..9, 9..12].map(|quarter| Memory::least(&measured[quarter]));
    println!("third quarter: {third:?}\nlast quarter: {last:?}");
    assert!(last.heap < third.heap + f64::from(1 << 20), "{third:?} {last:?}");
    // The nodes of parts that were closed last wait to be collected, or not: up to 2,000 of them in each measurement.
    let most = measured[..9].iter().map(|it| it.nodes).fold(0.0, f64::max);
    assert!(last.nodes <= most + 150.0, "{most} {last:?}");
    assert!(last.listeners <= third.listeners + 20.0, "{third:?} {last:?}");
    assert_eq!(third.documents, last.documents);
    site.browser.finish();
}
