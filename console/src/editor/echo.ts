// What an editor told its parent, and gets back as the text to show. A parent renders once for several keys, and later than the
// next key: a text that comes back is no change then, however old it is. Written into the editor, it would undo keys, be told
// to the parent again, and so on without end.

export class Echoes {
  private told: string[] = [];

  /** The editor tells its parent of a text. */
  tell(text: string): void {
    this.told.push(text);
  }

  /** Whether a text that the parent gives is one that the editor told, and not yet passed by a later one. If not, it is from
   * elsewhere, and what was told before it is of no account. */
  isOwn(text: string): boolean {
    const at = this.told.indexOf(text);
    // The texts before it never come, since several keys are one rendering.
    this.told = at < 0 ? [] : this.told.slice(at);
    return at >= 0;
  }
}
