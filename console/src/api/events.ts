// Reads Server-Sent Events from the pieces of an answer. The browser's own EventSource cannot send an access token.

export interface StreamEvent {
  /** Empty for events without a name: rows. */
  name: string;
  data: string;
}

/** The most characters of one line, and of the data of one event. */
const LONGEST = 64 << 20;

/** Pieces may be cut anywhere: within a line's end, within a character. */
export class EventParser {
  /** The id of the last event, which a request goes on after; empty before the first. */
  lastId = "";
  private readonly decoder = new TextDecoder();
  /** A line whose end has not come yet, in the pieces in which it came. */
  private parts: string[] = [];
  private length = 0;
  /** Whether the last piece ended with CR: a LF at the start of the next one belongs to it. */
  private isAfterReturn = false;
  private id: string | null = null;
  private name = "";
  private data: string[] = [];
  private dataLength = 0;

  /** The events that are complete with this piece. Comments are none. Throws a RangeError if an event is too long. */
  push(bytes: Uint8Array): StreamEvent[] {
    const text = this.decoder.decode(bytes, { stream: true });
    const found: StreamEvent[] = [];
    let start = this.isAfterReturn && text.startsWith("\n") ? 1 : 0;
    if (text !== "") this.isAfterReturn = text.endsWith("\r");
    const ends = /\r\n|\n|\r/g;
    ends.lastIndex = start;
    for (let end = ends.exec(text); end; end = ends.exec(text)) {
      this.parts.push(text.slice(start, end.index));
      start = ends.lastIndex;
      const line = this.parts.join("");
      this.parts = [];
      this.length = 0;
      this.take(line, found);
    }
    if (start < text.length) {
      this.parts.push(text.slice(start));
      this.length += text.length - start;
    }
    if (this.length > LONGEST || this.dataLength > LONGEST) throw new RangeError("an event of the stream is too long");
    return found;
  }

  private take(line: string, found: StreamEvent[]): void {
    if (line === "") {
      if (this.id !== null) this.lastId = this.id;
      if (this.data.length > 0) found.push({ name: this.name, data: this.data.join("\n") });
      this.id = null;
      this.name = "";
      this.data = [];
      this.dataLength = 0;
      return;
    }
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
    if (field === "data") {
      this.data.push(value);
      this.dataLength += value.length;
    } else if (field === "event") {
      this.name = value;
    } else if (field === "id" && !value.includes("\0")) {
      this.id = value;
    }
  }
}
