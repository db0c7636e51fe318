// The colours of series: those of severities are fixed, all others come from the name, so that they stay from view to view.
import { severityOf } from "./severity";

const NAMED = ["--s1", "--s2", "--s3", "--s4", "--s5", "--s6", "--s7", "--s8"];

/** The value of a colour of the style sheet, as the page shows it now. */
export function colour(variable: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

export function variableOf(name: string): string {
  const severity = severityOf(name);
  if (severity !== "other") return { error: "--error-mark", warning: "--warn-mark", info: "--info", debug: "--debug" }[severity];
  if (name === "") return "--accent";
  let hash = 0;
  for (const char of name) hash = (hash * 31 + (char.codePointAt(0) ?? 0)) >>> 0;
  return NAMED[hash % NAMED.length] as string;
}

/** The variables of several series: as variableOf, without the same twice as long as there are others. */
export function variablesOf(names: string[]): string[] {
  const used = new Set<string>();
  return names.map((name) => {
    let variable = variableOf(name);
    if (used.has(variable) && variable.startsWith("--s")) variable = NAMED.find((one) => !used.has(one)) ?? variable;
    used.add(variable);
    return variable;
  });
}
