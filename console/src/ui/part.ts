// The parts of the console that are loaded when they are first needed. After an upgrade the server has others, under other names.
import { signal } from "@preact/signals";

/** Whether a part could not be loaded: only the page anew gets the parts that there are. */
export const isPartMissing = signal(false);

/** Hands a part on when it is there. Where it cannot be loaded, the frame of the pages says so. */
export function withPart<Module>(loading: Promise<Module>, done: (module: Module) => void): void {
  loading.then(done, () => {
    isPartMissing.value = true;
  });
}
