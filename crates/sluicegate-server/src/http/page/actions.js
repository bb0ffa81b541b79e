/** What an operator can do to a key. Each act is confirmed in a sentence, and can be undone where that is possible. */

import { call } from "./api.js";
import { notify, open } from "./dialog.js";
import { el, field, select } from "./dom.js";
import { count, plain, shown, span } from "./text.js";

/**
 * The key, with its last state.
 * @typedef {{limit: string, key: string, decision: any, done: () => void}} Subject
 */

const words = ({ limit, key }) => [shown(key, 80), " under ", shown(limit)];
const body = ({ limit, key }, more = {}) => ({ limit, key, ...more });

/** Calls of a ban and of a pause: what was done, the call that ends it, and what that did. */
const CALLS = { ban: ["Banned", "unban", "Unbanned"], pause: ["Paused", "resume", "Resumed"] };

/** Returns the ban, or the longest pause of the limit or of one policy. */
const inForce = async (of, noun, policy) => (await call("v1/peek", body(of, policy ? { cost: { [policy]: 1 } } : {})))[noun];

/** Says before an act that a longer ban or pause stays. */
const laterEnd = (of, noun) => (of.decision?.[noun] ? ` The ${noun} in force ends in ${span(of.decision[noun].ends_in_ms)}, and the later end counts.` : "");

/** Returns a call that sets a ban or a pause again for the rest of its time, and says so: null if none is left. */
function restorer(of, noun, old) {
  const ends = performance.now() + (old?.ends_in_ms ?? 0);
  return async () => {
    const left = Math.ceil(ends - performance.now());
    if (left <= 0) return null;
    await call(`v1/${noun}`, body(of, { for: `${Math.max(1000, left)}ms`, ...(old.policy ? { policy: old.policy } : {}) }));
    return [`The earlier ${noun} is in force again: `, ...words(of), ` for ${span(left)}.`];
  };
}

/** Sets a ban or a pause. Its undo ends it first: a shorter one never shortens a longer one. */
async function set(of, noun, lasts, more = {}) {
  const [done, end, ended] = CALLS[noun];
  const old = await inForce(of, noun, more.policy);
  const restore = restorer(of, noun, old);
  const made = (await call(`v1/${noun}`, body(of, { for: lasts.trim(), ...more })))[noun];
  if (!made) return { said: ["The limit is off, so nothing changed for ", ...words(of), "."] };
  return {
    said: old?.ends_in_ms >= made.ends_in_ms
      ? [`An earlier ${noun} ends later: `, ...words(of), ` is ${done.toLowerCase()} for ${span(old.ends_in_ms)}.`]
      : [`${done} `, ...words(of), ` for ${span(made.ends_in_ms)}.`],
    undo: async () => {
      await call(`v1/${end}`, body(of, more));
      return await restore() ?? [`${ended} `, ...words(of), "."];
    },
  };
}

/** Ends a ban or all pauses. */
async function lift(of, noun) {
  const [, end, ended] = CALLS[noun];
  const old = await inForce(of, noun);
  const restore = restorer(of, noun, old);
  const { forgotten } = await call(`v1/${end}`, body(of));
  return {
    said: [forgotten ? `${ended} ` : `There was no ${noun} of `, ...words(of), "."],
    undo: old && (async () => await restore() ?? [`The ${noun} of `, ...words(of), " would have ended by now."]),
  };
}

/**
 * Asks, acts, and says what was done.
 * @param {Subject} of
 * @param {{title: string, verb: string, fields?: HTMLElement[], sentence: () => (string|Node)[], act: () => Promise<{said: (string|Node)[], undo?: () => Promise<(string|Node)[]>}>}} options
 */
function confirm(of, { title, verb, fields = [], sentence, act }) {
  const text = el("p", { class: "sentence" });
  const say = () => text.replaceChildren(...sentence());
  say();
  return open({
    title, verb, danger: true,
    content: [el("div", { oninput: say }, ...fields), text],
    submit: async () => {
      const { said, undo } = await act();
      of.done();
      notify(said, undo && (async () => {
        const undone = await undo();
        of.done();
        return undone;
      }));
    },
  });
}

const text = (value, attributes = {}) => el("input", { value, class: "short", autocomplete: "off", ...attributes });

export function ban(of) {
  const lasts = text("1h");
  return confirm(of, {
    title: "Ban the key", verb: "Ban", fields: [field("For", lasts, "1s to 30d")],
    sentence: () => ["Every request of ", ...words(of), ` is denied for ${plain(lasts.value)} from now, in all processes.${laterEnd(of, "ban")}`],
    act: () => set(of, "ban", lasts.value),
  });
}

export function unban(of) {
  const left = of.decision?.ban?.ends_in_ms ?? null;
  return confirm(of, {
    title: "Lift the ban", verb: "Unban",
    sentence: () => ["The ban of ", ...words(of), left === null ? " is lifted." : ` is lifted; it would have ended in ${span(left)}.`],
    act: () => lift(of, "ban"),
  });
}

/** Returns a list of the key's policies, after the whole limit. */
const policyList = of => select([["", "the whole limit"], ...(of.decision?.policies ?? []).map(policy => [policy.name, plain(policy.name)])]);

export function pause(of) {
  const lasts = text("30s");
  const policy = policyList(of);
  return confirm(of, {
    title: "Pause the key", verb: "Pause", fields: [field("For", lasts), field("Pause", policy)],
    sentence: () => [policy.value ? `Requests that the policy ${plain(policy.value)} counts are denied for ` : "Every request is denied for ", ...words(of),
      ` until ${plain(lasts.value)} from now.${laterEnd(of, "pause")}`],
    act: () => set(of, "pause", lasts.value, policy.value ? { policy: policy.value } : {}),
  });
}

export function resume(of) {
  const old = of.decision?.pause;
  return confirm(of, {
    title: "End the pause", verb: "Resume",
    sentence: () => ["All pauses of ", ...words(of), old ? ` end now, the longest ${span(old.ends_in_ms)} early. Undo restores only that one.` : " end now."],
    act: () => lift(of, "pause"),
  });
}

export function reset(of) {
  return confirm(of, {
    title: "Reset the key", verb: "Reset",
    sentence: () => [...words(of), " is like a fresh key afterwards: its used units, holds and waiters are forgotten. This can't be undone."],
    act: async () => {
      const { forgotten } = await call("v1/reset", body(of));
      return { said: [forgotten ? "Reset " : "Nothing was stored about ", ...words(of), "."] };
    },
  });
}

export function refund(of) {
  const policy = policyList(of);
  const units = text("1", { inputmode: "numeric" });
  const cost = number => (policy.value ? { [policy.value]: number } : number);
  return confirm(of, {
    title: "Refund units", verb: "Refund", fields: [field("Units", units), field("To", policy)],
    sentence: () => [`${plain(units.value)} used units are given back to `, ...words(of), policy.value ? ` in the policy ${plain(policy.value)}.` : " in each of its policies."],
    act: async () => {
      const { policies } = await call("v1/refund", body(of, { cost: cost(Number(units.value)) }));
      const given = policies.filter(each => each.given_back);
      // A charge takes back exactly what each policy gave.
      const taken = Object.fromEntries(given.map(each => [each.name, each.given_back]));
      return {
        said: [given.length ? `Refunded ${given.map(each => `${count(each.given_back)} of ${plain(each.name)}`).join(", ")} to ` : "There was nothing to give back to ", ...words(of), "."],
        undo: given.length ? async () => {
          await call("v1/charge", body(of, { cost: taken }));
          return ["Charged the refund again to ", ...words(of), "."];
        } : undefined,
      };
    },
  });
}

export function revoke(of, hold) {
  return confirm(of, {
    title: "End the hold", verb: "End the hold",
    sentence: () => ["The hold ", el("code", {}, plain(hold)), " of ", ...words(of), " ends: its units are no longer in flight, and its owner isn't told. This can't be undone."],
    act: async () => {
      await call("v1/revoke", body(of, { hold }));
      return { said: ["Ended a hold of ", ...words(of), "."] };
    },
  });
}
