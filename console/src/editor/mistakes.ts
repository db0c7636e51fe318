// The places that a refusal names, for underlining.
import { Failure } from "../api/client";
import type { Mistake } from "./Editor";

const PLACE = /line (\d+), column (\d+)/;

export function mistakesOf(error: unknown): Mistake[] {
  if (!(error instanceof Failure)) return [];
  const found: Mistake[] = [];
  for (const one of error.errors.length > 0 ? error.errors : [{ message: error.message }]) {
    const place = PLACE.exec("location" in one && one.location ? one.location : "") ?? PLACE.exec(one.message) ?? PLACE.exec(error.message);
    if (place) found.push({ message: one.message, line: Number(place[1]), column: Number(place[2]) });
  }
  return found;
}
