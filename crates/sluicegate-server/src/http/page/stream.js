/** The stream of events, read by `fetch`: the browser's own reader of events can't send a token. */

import { errorOf, send, withQuery } from "./api.js";

/** Without an event for so long, what the page shows is stale: the service sends some each second. */
const STALE_MS = 5000;
const LONGEST_WAIT_MS = 15000;

/**
 * Reads `/v1/stream`, and connects again when it ends.
 *
 * `onevent` gets each event with its data. `onstate` gets `live`, `connecting`, `waiting` or `refused`, with a message.
 */
export class Stream {
  /**
   * @param {(kind: string, data: any) => void} onevent
   * @param {(state: string, message: string|null) => void} onstate
   */
  constructor(onevent, onstate) {
    this.onevent = onevent;
    this.onstate = onstate;
    this.query = {};
    this.id = "";
    this.failures = 0;
    /** When the last event came, by a clock that is never set. */
    this.heard = performance.now();
    this.turn = 0;
    this.timer = 0;
    /** @type {AbortController|null} */
    this.abort = null;
  }

  /** Connects with other parameters, or again. */
  ask(query = this.query) {
    this.query = query;
    this.close();
    this.run(this.turn);
  }

  /** Ends the connection, and what waits for the next one. */
  close() {
    this.turn += 1;
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
  }

  /** Returns for how long nothing was heard, if that is too long. */
  staleFor() {
    const silent = performance.now() - this.heard;
    return silent > STALE_MS ? silent : 0;
  }

  /** Connects again if a connection is open, but silent. */
  watch() {
    if (this.abort && this.staleFor() > 3 * STALE_MS) this.retry(this.turn, "nothing arrives");
  }

  async run(turn) {
    this.abort = new AbortController();
    this.onstate("connecting", null);
    try {
      const path = withQuery("v1/stream", { ...this.query, resume: this.id });
      const response = await send(path, { signal: this.abort.signal, headers: { Accept: "text/event-stream" } });
      if (turn !== this.turn) return;
      if (!response.ok) {
        const error = await errorOf(response);
        if (error.status === 401 || error.status === 403 || error.status === 400) return this.refuse(error);
        throw error;
      }
      await this.read(response.body, turn);
      this.retry(turn, "the service ended the stream");
    } catch (error) {
      if (error.name !== "AbortError") this.retry(turn, error.message);
    }
  }

  refuse(error) {
    this.abort = null;
    this.onstate("refused", error.message);
  }

  retry(turn, why) {
    if (turn !== this.turn) return;
    this.close();
    this.failures += 1;
    const most = Math.min(LONGEST_WAIT_MS, 250 * 2 ** this.failures);
    // Many pages must not come back at the same instant.
    const wait = most / 2 + (Math.random() * most) / 2;
    this.onstate("waiting", why);
    const next = this.turn;
    this.timer = setTimeout(() => next === this.turn && this.ask(), wait);
  }

  async read(body, turn) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done || turn !== this.turn) return;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) this.take(event);
    }
  }

  /** Takes the text of an event. */
  take(event) {
    let kind = "message";
    let data = "";
    for (const line of event.split("\n")) {
      const [, name, value] = /^([a-z]*): ?(.*)$/.exec(line) ?? [];
      if (name === "event") kind = value;
      if (name === "data") data += value;
      if (name === "id") this.id = value;
    }
    if (!data) return;
    this.heard = performance.now();
    this.failures = 0;
    this.onstate("live", null);
    this.onevent(kind, JSON.parse(data));
  }
}
