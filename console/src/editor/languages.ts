// The languages of the editor: the dialect of SQL, and LQL.
import { SQLDialect } from "@codemirror/lang-sql";
import { StreamLanguage } from "@codemirror/language";
import functions from "../functions.json";

const KEYWORDS =
  "all and any array as asc between by case cast corresponding cross current_row desc distinct else end except exists false following for from full group grouping having ilike in inner intersect interval is join last lateral left like limit natural not null nulls first offset on or order ordinal outer over partition preceding qualify recursive replace right rollup cube row rows safe_offset safe_ordinal safe_cast select sets struct tablesample then true unbounded union unnest using when where window with at time zone extract day hour minute second month year week quarter microsecond millisecond pivot unpivot include exclude";
/** The words of pipe operators that are no words of other queries. */
const PIPES = "aggregate assert drop extend rename set";
const TYPES = "bool int64 float64 numeric bignumeric decimal bigdecimal string bytes date datetime time timestamp interval json range";

export const dialect = SQLDialect.define({
  keywords: `${KEYWORDS} ${PIPES}`,
  types: TYPES,
  builtin: functions.map((name) => name.toLowerCase()).join(" "),
  identifierQuotes: "`",
  doubleQuotedStrings: true,
  hashComments: true,
  backslashEscapes: true,
  operatorChars: "*+-%<>!=&|~^/",
  specialVar: "@",
  unquotedBitLiterals: false,
});

/** What completion offers: words that stand together are one. */
export const keywords = [
  ...KEYWORDS.split(" ").filter((word) => !/^(by|group|order|partition)$/.test(word)).map((word) => word.toUpperCase()),
  ...["GROUP BY", "ORDER BY", "PARTITION BY"],
];
export const types = TYPES.split(" ").map((word) => word.toUpperCase());

export const lql = StreamLanguage.define<null>({
  name: "lql",
  startState: () => null,
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^-?(?:t|timestamp|f|from|s|select|c|chart):/)) return "keyword";
    if (stream.match(/^-?[A-Za-z_][\w.]*(?=:)/)) return "propertyName";
    if (stream.match(/^~?"(?:\\.|[^"\\])*"?/)) return "string";
    if (stream.match(/^:(?:@>~?|[<>]=?|~)?/)) return "operator";
    if (stream.match(/^-?\d[\d.:TZ+-]*(?=\s|$|\.)/)) return "number";
    if (stream.match(/^(?:NULL|true|false)\b/)) return "atom";
    if (stream.match(/^\w+@\w+/)) return "atom";
    stream.next();
    return null;
  },
});
