/** The tables of the ledger: what became of captured lines, a row each. Columns are only ever added. */

/** The types of columns, with the values that they have here. */
interface Values {
  text: string;
  /** Up to 2^31. */
  int: number;
  long: bigint;
  number: number;
  flag: boolean;
  /** Epoch milliseconds. */
  time: number;
  texts: readonly string[];
  /** Texts that may be absent. */
  cells: readonly (string | null)[];
  ints: readonly number[];
  numbers: readonly number[];
}
export type ColumnType = keyof Values;

/** What a run did, and where the line is: columns of all tables. */
const EVENT = {
  /** Of the endpoint, such as `2026-11-20T10` (UTC): that of the inference, or of the file if the line names no possible one. */
  hour: 'text',
  variant: 'text',
  /** The request was not sent by a registered replay. */
  serving: 'flag',
  /** The higher one counts; see `precedenceOf`. */
  precedence: 'long',
  traceId: 'text',
  run: 'text',
  /** The first run of the chain of retries. */
  chain: 'text',
  chunk: 'int',
  attempt: 'int',
  key: 'text',
  /** Byte of the line in the object. */
  start: 'number',
} as const satisfies Record<string, ColumnType>;

export const TABLES = {
  /** A row per line. */
  captures: {
    ...EVENT,
    experimentId: 'text',
    endpoint: 'text',
    time: 'time',
    bucket: 'text',
    /** Its number in the file, from 1. */
    line: 'int',
    version: 'text',
    etag: 'text',
    end: 'number',
    outcome: 'text',
    /** Of a line in quarantine. */
    reason: 'text',
    format: 'text',
    /** Why the run did not judge it: `rule <name>` of `NOT_TRAFFIC`, or `window` of `traffic exclude`. */
    notTraffic: 'text',
    /** Of an error reply: its HTTP status, or else its name. */
    errorKind: 'text',
    /** Of a call without a reply that is no capture. */
    failedCall: 'text',
    /** `stream` or `call`, if the capture client wrote the line. */
    call: 'text',
    /** From the start of a call to its end, and to the first token of its stream, if the capture client wrote the line. */
    latencyMs: 'number',
    firstTokenMs: 'number',
    /** Decoded sizes of the payloads. Characters are those of payloads in text. */
    requestBytes: 'number',
    replyBytes: 'number',
    requestChars: 'number',
    replyChars: 'number',
    inputTokens: 'number',
    outputTokens: 'number',
    /** Of a table, whose predictions are in `inferences`. */
    rows: 'int',
    /** Of a reply that was captured in full: `words` or `values`. */
    replyForm: 'text',
    isEmpty: 'flag',
    /** Identify the same call in another source: 48 bits of the hashes of its id and of its texts, which are masked as in the trace. */
    digests: 'texts',
    /** The settings that masked it, as `maskingOf` writes them. Absent: none. */
    masking: 'text',
    /** Kinds, and how many of each. */
    masked: 'texts',
    maskedCounts: 'ints',
    /** A run evaluated the line: the next columns are known. */
    evaluated: 'flag',
    /** The draw of the run: `always` by a rule, or the chance to be judged, such as `0.05`. */
    sample: 'text',
    /** The name of that rule of `EVALUATION_ALWAYS`. */
    rule: 'text',
    /** The LLM scorers that could judge it, and the stratum of each. */
    judgeable: 'texts',
    strata: 'texts',
    /** No scorer that can fail applies. */
    unmeasured: 'flag',
    /** Scorers without a verdict that was given, failed or held, and the reason of each. */
    notJudged: 'texts',
    reasons: 'texts',
  },
  /** A row per verdict that was given, failed or held. */
  verdicts: {
    ...EVENT,
    experimentId: 'text',
    masking: 'text',
    scorer: 'text',
    /** `given`, `failed` or `held`. */
    state: 'text',
    /** It was there before the run, which paid nothing for it. */
    found: 'flag',
    value: 'text',
    /** The value, if it is a number. */
    number: 'number',
    /** Why it failed, or by what it was held if it is not the budget. */
    errorCode: 'text',
    /** No judge was asked. */
    isCode: 'flag',
    judge: 'text',
    /** Of the judge: model, question and options. */
    version: 'text',
    /** Absent from a verdict of another program. */
    stratum: 'text',
    /** What the run has paid for it, US dollars. */
    usd: 'number',
    assessmentId: 'text',
  },
  /** A row per trace with an id that its caller chose, as it stands in the trace. They are kept for `KEPT_DAYS.people`. */
  'ids/people': {
    ...EVENT,
    time: 'time',
    userId: 'text',
    sessionId: 'text',
    inferenceId: 'text',
    /** Of the application's trace, if the call names it: 32 hex digits. */
    parentTraceId: 'text',
  },
  /**
   * The id that a label names for a prediction, and the columns of `groups`. They are kept as long as `GROUND_TRUTH.days` says. They are
   * written after `inferences`: a reader that finds an id finds its prediction.
   */
  'ids/inferences': {
    ...EVENT,
    index: 'int',
    endpoint: 'text',
    time: 'time',
    maskedBy: 'text',
    id: 'text',
    groups: 'cells',
  },
  /** A row per prediction that a label could be compared with, or that is counted. */
  inferences: {
    ...EVENT,
    /** Position within the call, from 0. Absent if the call carried one inference. */
    index: 'int',
    endpoint: 'text',
    time: 'time',
    /** The predicted class or number, as text. Absent if it follows from `scores`, or if the reply is a text. */
    value: 'text',
    /** The number that the value, or else the likeliest class, writes. */
    number: 'number',
    /** The value is a boolean. */
    isBoolean: 'flag',
    scores: 'numbers',
    classes: 'texts',
    /** Hashes of a reply in text. */
    exact: 'text',
    normalized: 'text',
    /** The version of the key of its pseudonyms and hashes, if its capture was masked. */
    maskedBy: 'text',
    /** Rows of tables, which are counted. */
    isCounted: 'flag',
  },
  /** A row per trace, scorer and person: what MLflow had when it was read. No other file of a day has labels. */
  labels: {
    hour: 'text',
    variant: 'text',
    traceId: 'text',
    scorer: 'text',
    person: 'text',
    /** As verdicts have it. Absent if it is no value of the scorer. */
    value: 'text',
    number: 'number',
    labeledAt: 'time',
    readAt: 'time',
  },
} as const satisfies Record<string, Record<string, ColumnType>>;

export type Table = keyof typeof TABLES;
/** The tables with ids that people chose: users, sessions, inferences. */
export const ID_TABLES = ['ids/people', 'ids/inferences'] as const satisfies Table[];
export const isOfIds = (table: Table): boolean => ID_TABLES.some((one) => one === table);
/** The columns that rows are found by, which have bloom filters. Rows of ids stand in the order of the first one. */
export const SOUGHT: Record<Table, readonly string[]> = {
  captures: ['traceId'],
  verdicts: ['traceId'],
  inferences: ['traceId'],
  'ids/people': ['userId', 'sessionId', 'parentTraceId', 'traceId'],
  'ids/inferences': ['id', 'traceId'],
  labels: ['traceId'],
};
export const TABLE_NAMES = Object.keys(TABLES) as Table[];
/** The tables that attempts at chunks write. */
export type LineTable = Exclude<Table, 'labels'>;
export const LINE_TABLES = TABLE_NAMES.filter((table): table is LineTable => table !== 'labels');
type Columns<T extends Table> = (typeof TABLES)[T];

/** A row. A column may be absent; in a file, it is then null. */
export type Row<T extends Table> = {
  -readonly [C in keyof Columns<T>]?: Columns<T>[C] extends ColumnType ? Values[Columns<T>[C]] | undefined : never;
};

export type Column<T extends Table> = keyof Row<T>;

/** The columns of a row that say what a run did, and where the line is. */
export type EventColumns = Pick<Row<'captures'>, keyof typeof EVENT>;

/** Returns the columns of a row that say what a run did. */
export const eventIn = (row: EventColumns): EventColumns =>
  Object.fromEntries((Object.keys(EVENT) as (keyof EventColumns)[]).map((column) => [column, row[column]]));

/** Rows of each of these. */
export type LedgerRows = { [T in LineTable]: Row<T>[] };

export const noRows = (): LedgerRows =>
  Object.fromEntries(LINE_TABLES.map((table) => [table, []])) as unknown as LedgerRows;

/** Returns the name of a column as files and SQL have it. */
export const columnName = (column: string): string => column.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
