/**
 * Reduces the error texts of other programs to known words, which are safe in logs, receipts and causes. The originals can
 * quote captured content: MLflow lists the parameters of a statement, a judge repeats the prompt, a JSON parser quotes its
 * input.
 */

/** The words in which MLflow, its databases, gateways, judges and Node report errors. */
const WORDS = new Set(
  `a abort aborted about above access account action actions active actively additional after again allowed already
  altnames an and another anthropic any are aren't argument argumenterror array artifact as assessment at attempt
  authentication authorization authorized aws background bad based batch be because been before below between blank
  block body boolean bound broken bucket budget burst busy but by byte bytes cache caching call can can't cannot
  capacity case certificate changed character characters check choice client clients closed code column columns command
  compiled complete completion completions concurrency concurrent concurrently condition conditional config
  configuration configured conflict connect connection connections constraint constructor contact contain contains
  content contentblock context control convert corrupt could couldn't create created credentials credits current data database
  date days deadlock decode default deleted demand denied deny deprecated deserialization detail details detected device did
  didn't different digest directory disabled disk doctype documentation does doesn't don't down due duplicate
  eaddrinuse eai early econnaborted econnrefused econnreset ehostunreach element empty enabled encode encoding end
  ended endpoint endpoints enetunreach enoent enospc enotfound entity entry epipe error errors escape etimedout exceed
  exceeded exceeds exception exist exists expected experiment experiments expired explicit export extra failed fails
  failure feature fetch field fields file fill filter finish flag following for forbidden forces foreign form format
  found foundation from full function gateway generation get given grammar guardrail had handshake hang has have head
  header headers heap help hint host html http https iam id identifier identity illegal implemented in inactive
  included incomplete increase inference input inputs insert instead insufficient integer integrity internal invalid
  invocation invoked is isn't issue issuer it iterable its job jobs json json5 jsondecodeerror key large last later
  latest left legacy length less license life limit limits line loading locale lock locked login long malformed many
  marked marketplace match max maximum maxlength memory message messages method min minimum mismatch missing mlflow
  mode model models modified more most moved must name names network newer nginx no not null number object of off
  offset on one only open operation operational option or out output over overflow overloaded parameter parameters
  parse parser passed password pattern payload payment per perform permanently permission permissions permitted plan
  please policies policy pool position postgresql precondition premature preview primitive profile prompt properties
  property protocol provided provider proxy psycopg psycopg2 pymysql query queue queuepool quota range rate reached
  read reading ready reason received record records recursion redirect refer refresh refused region relation reply
  request requested requests required reset resolve resource resources response restart retry retryable returned role
  roles route row rows rule run schema search seconds secret see select self sequence serialize server service session
  set shape should sign signature signed size skewed slow small socket space spans specified sqlalchemy sqlite sqlite3
  ssl stack state statemachine statement status stop stopped store stream string structured submit submitted such
  support supported supports surrogate syntax system t table tag tags temperature temporarily tenant text than that the
  thinking this throttled throughput tier time timed timeout timestamp title tls to token tokens too tool toolchoice
  toolconfig tools top trace traces transaction trouble try trying type unable unauthenticated unauthorized unavailable
  unclosed undefined unexpected unicode unique unknown unlicensed unprocessable unreachable unrecognized unsupported
  unterminated up update upgrade upstream use used user using utf utf8 valid validation value values varying verify
  version violates violation visible wait was wasn't were when while with within without workspace write written wrong
  you your`.split(/\s+/),
);

/** An ARN, an IAM action, or a word. */
const TOKEN =
  /arn:aws[a-z-]{0,10}:[\w:/.*-]{1,300}|\b(?:aws-marketplace|bedrock|dynamodb|kms|s3|sagemaker|sagemaker-mlflow|secretsmanager|states):[A-Z][A-Za-z]{2,60}|[A-Za-z0-9_]+(?:['’]t\b)?/g;
/** `StringDataRightTruncation`, `ValidationException`. */
const ERROR_CLASS = /^[A-Z][A-Za-z]{2,50}(?:Error|Exception|Violation|Truncation)$/;

const MAX_READ_CHARS = 2000;
const MAX_CHARS = 300;
const GAP = '…';

const isKnown = (token: string): boolean =>
  token.includes(':') ||
  ERROR_CLASS.test(token) ||
  token
    .replace('’', "'")
    .split(/_|(?<=[a-z])(?=[A-Z])/)
    .every((part) => WORDS.has(part.toLowerCase()));

/** Returns the name of another program's error if it is made of known words. Most clients copy it from the server's reply. */
export const knownName = (name: string): string =>
  /^[\w.]+$/.test(name) && name.split('.').every(isKnown) ? name : 'Error';

/** Returns the known words of a text, with `…` for everything between them. They show what failed and quote no capture. */
export function knownWords(text: string): string {
  const kept: string[] = [];
  for (const [token] of text.slice(0, MAX_READ_CHARS).matchAll(TOKEN)) {
    if (isKnown(token)) kept.push(token);
    else if (kept.at(-1) !== GAP) kept.push(GAP);
  }
  const said = kept.join(' ');
  return said.length > MAX_CHARS || text.length > MAX_READ_CHARS ? `${said.slice(0, MAX_CHARS)} ${GAP}` : said;
}
