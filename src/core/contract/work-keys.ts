/** The keys of the work bucket. Permissions are derived from the same areas. */

/** Ordinals are zero-padded, so that a listing of a prefix is sorted. 8 digits leave room for 10^8 chunks. */
const padded = (ordinal: number, digits = 8): string => String(ordinal).padStart(digits, '0');

/**
 * The areas of the work bucket by their content: the folder of each, or its object. A `*` is the run, or the name of the object.
 * Permissions are granted by area.
 */
const AREAS = {
  starts: 'starts/',
  manifest: 'runs/*/manifest/',
  ranges: 'runs/*/ranges/',
  plan: 'runs/*/plan/',
  receipts: 'runs/*/receipts/',
  words: 'runs/*/words/',
  mapResult: 'runs/*/map/',
  batchMapResult: 'runs/*/map-batch/',
  summary: 'runs/*/summary.json',
  summaryState: 'runs/*/summary-state/',
  lineAtWork: 'runs/*/at-work/',
  answers: 'answers/*/',
  quarantine: 'quarantine/*/',
  claims: 'claims/*.json',
  counts: 'counts/',
  measured: 'counts/measured/',
  ledger: 'ledger/',
  capturesLedger: 'ledger/captures/',
  verdictsLedger: 'ledger/verdicts/',
  forgotten: 'ledger/forgotten.json',
  excluded: 'ledger/excluded.json',
  reports: 'reports/',
  forwards: 'forwards/',
  batchState: 'batch/*/state/',
  batchManifest: 'batch/*/state/manifest.jsonl',
  batchInput: 'batch/*/input/',
  batchOutput: 'batch/*/output/',
  inferences: 'ledger/inferences/',
  inferenceIds: 'ledger/ids/inferences/',
  truthUploads: 'ground-truth/uploads/',
  truthWaiting: 'ground-truth/waiting/',
  truthFiles: 'ground-truth/files/',
  truthLabeled: 'ground-truth/labeled/',
  truthOpen: 'ground-truth/to-note/',
  truthRuns: 'ground-truth/runs/',
  truthReports: 'ground-truth/reports/',
  replayMarks: 'replay-marks/',
  replayPlan: 'replays/*/plan.json',
  replayManifest: 'replays/*/manifest.jsonl',
  replaySchedule: 'replays/*/schedule/',
  replayStop: 'replays/*/stop.json',
  replayShards: 'replays/*/shards/',
  replayMapResult: 'replays/*/map/',
  replayExchanges: 'replays/*/exchanges/',
  replayVerdicts: 'replays/*/verdicts/',
  replayPublication: 'replays/*/publication.json',
  replayResults: 'replays/*/results/',
};
export type WorkArea = keyof typeof AREAS;

/** Returns the prefix of the keys of an area, or the key of its object. @param name the run, or the name of the object */
export const areaOf = (area: WorkArea, name = ''): string => AREAS[area].replace('*', () => name);

/** Returns the keys of an area as the pattern of a policy. */
export const areaPattern = (area: WorkArea): string => AREAS[area].replace(/\/$/, '/*');

/** Keys of the monitoring pipeline. */
export const workKeys = {
  /** The capture files of a run that the starter starts. */
  startList: (run: string) => `${areaOf('starts')}${run}.jsonl`,
  runPrefix: (run: string) => `runs/${run}/`,
  /**
   * @param attempt distinguishes the attempts at planning the part. The receipt of the plan names the attempt that
   *   counts
   */
  manifest: (run: string, part: number, attempt: string) =>
    `${areaOf('manifest', run)}${padded(part)}-${attempt}.jsonl`,
  /** The ranges of a chunk, if its line in the manifest would be too long. */
  ranges: (run: string, chunk: number, attempt: string) => `${areaOf('ranges', run)}${padded(chunk)}-${attempt}.json`,
  plan: (run: string, part: number) => `${areaOf('plan', run)}${padded(part)}.json`,
  /** In a listing, receipts of this chunk and of later chunks come after this key. */
  receiptsFrom: (run: string, chunk: number) => `${areaOf('receipts', run)}${padded(chunk)}`,
  receipt: (run: string, chunk: number, step: 'log' | 'evaluate', attempt: number, requestId: string) =>
    `${workKeys.receiptsOfChunk(run, chunk, step)}${padded(attempt, 3)}-${requestId}.json`,
  receiptsOfChunk: (run: string, chunk: number, step: 'log' | 'evaluate') =>
    `${areaOf('receipts', run)}${padded(chunk)}/${step}-`,
  /** Messages of other programs when an attempt failed. */
  words: (run: string, chunk: number, step: 'log' | 'evaluate', attempt: number, requestId: string) =>
    `${areaOf('words', run)}${padded(chunk)}/${step}-${padded(attempt, 3)}-${requestId}.json`,
  /** Bedrock's reasons for refusing a batch job. */
  batchWords: (run: string, group: number) => `${areaOf('words', run)}batch-${padded(group)}.json`,
  /** The line at work, where the function was killed on the chunk before. */
  lineAtWork: (run: string, chunk: number, step: 'evaluate' | 'prepare') =>
    `${areaOf('lineAtWork', run)}${padded(chunk)}-${step}.json`,
  /** A long answer of the judge, by the first run of a chain of retries and the digest of the question. */
  answer: (chain: string, question: string) => `${areaOf('answers', chain)}${question}.json`,
  chunkOfRun: (run: string, chunk: number) => `${workKeys.chunksOfRun(run)}${padded(chunk)}`,
  chunksOfRun: (run: string) => `${run}/`,
  mapResultPrefix: (run: string) => areaOf('mapResult', run).slice(0, -1),
  batchMapResultPrefix: (run: string) => areaOf('batchMapResult', run).slice(0, -1),
  summary: (run: string) => areaOf('summary', run),
  /** SummarizeRun's sums so far, for its next invocation. */
  summaryState: (run: string, part: number) => `${areaOf('summaryState', run)}${padded(part)}.json`,
  quarantine: (run: string, chunk: number) => `${areaOf('quarantine', run)}${padded(chunk)}.jsonl`,
  /** The requests of a chunk for Bedrock batch inference. The files of a group are the input of one job. */
  batchInput: (run: string, group: number, chunk: number) =>
    `${workKeys.batchInputPrefix(run, group)}${padded(chunk)}.jsonl`,
  batchInputPrefix: (run: string, group: number) => `${areaOf('batchInput', run)}${padded(group)}/`,
  /** Bedrock writes the answers to `batchInput` here. */
  batchOutput: (run: string, jobId: string, chunk: number) =>
    `${areaOf('batchOutput', run)}${jobId}/${padded(chunk)}.jsonl.out`,
  batchPrepared: (run: string, chunk: number) => `${areaOf('batchState', run)}prepared/${padded(chunk)}.json`,
  batchJobs: (run: string) => `${areaOf('batchState', run)}jobs.json`,
  batchManifest: (run: string) => areaOf('batchManifest', run),
  claim: (digest: string) => areaOf('claims', digest),
  /** The state of the detectors of all objectives. */
  detectors: 'counts/detectors.json',
  /**
   * Records the second (epoch) at which an objective became missed or met. `digest` identifies the objective and the
   * change.
   */
  change: (second: number, digest: string) => `${workKeys.changesPrefix}${padded(second, 11)}-${digest}.json`,
  changesPrefix: 'counts/turns/',
  /** The newest measurement of an objective for true answers. */
  measured: (objective: string) => `${areaOf('measured')}${objective}.json`,
  /** The page about the endpoint, as it was on a day (UTC), and the newest one. */
  report: (name: string) => `${areaOf('reports')}${name}.html`,
  /** The receipt of a forwarded capture file. `digest` is computed from its location and ETag. */
  forward: (digest: string) => `${areaOf('forwards')}${digest}.json`,
};

/** The tables of the ledger whose parts are sent to an OpenTelemetry receiver. */
export const SENT_TABLES = ['captures', 'verdicts'] as const;

/**
 * Keys of the ledger: the outcome of captured lines, as rows. A day is the day of the inference (UTC), such as
 * `2026-11-20`.
 */
export const ledgerKeys = {
  /** All files of a table. */
  table: (table: string) => `${areaOf('ledger')}${table}/`,
  day: (table: string, day: string) => `${ledgerKeys.table(table)}dt=${day}/`,
  /**
   * The rows of one attempt at a chunk. `hours` are the first and the last hour, such as `09-10`, and `digest` is the
   * digest of the content.
   */
  part: (table: string, day: string, hours: string, digest: string) =>
    `${ledgerKeys.day(table, day)}${hours}-${digest}.part.parquet`,
  /** The merged rows of several parts, which come after the parts in a listing. */
  merged: (table: string, day: string, hours: string, digest: string) =>
    `${ledgerKeys.day(table, day)}merged-${hours}-${digest}.parquet`,
  /** People's labels of a day. The file is replaced as a whole, and its name is that of a merged file. */
  labels: (day: string) => ledgerKeys.merged('labels', day, '00-23', 'all'),
  /** Marks that a run reads, or has read, the labels on this day. */
  labelsRead: (day: string) => `ledger/labels-read/${day}`,
  /** The counts of a day, which can be made again from its files. */
  sum: (day: string) => `${ledgerKeys.sumsPrefix}${day}.json.gz`,
  sumsPrefix: 'ledger/sums/',
  /** Marks that the files of this hour (UTC, such as `2026-11-20T10`) are merged, or are being merged. */
  merge: (hour: string) => `${ledgerKeys.mergesPrefix}${hour}`,
  mergesPrefix: 'ledger/merges/',
  /** The list of forgotten traces, whose ids are never written again. */
  forgotten: areaOf('forgotten'),
  /** The windows of captures that are no traffic. */
  excluded: areaOf('excluded'),
  /** The results of queries, which Athena writes. */
  resultsPrefix: 'athena/',
};

/** Keys of ground truth. An hour is the hour of the inference (UTC), such as `2026-11-20T10`. */
export const truthKeys = {
  prefix: 'ground-truth/',
  /** Label files that a person uploads. */
  upload: (name: string) => `${areaOf('truthUploads')}${name}`,
  /**
   * Labels of a file that have no prediction yet. `segment` is the digest of the file's place, ETag and time, a hyphen, and a number:
   * a segment has as many labels as are in memory at a time.
   */
  waiting: (segment: string) => `${areaOf('truthWaiting')}${segment}.jsonl.gz`,
  /** The report on a label file. It is written after all segments, so that no label of a partly read file is joined. */
  file: (digest: string) => `${areaOf('truthFiles')}${digest}.json`,
  /** The labeled predictions of an hour. */
  labeled: (hour: string) => `${areaOf('truthLabeled')}${hour}.jsonl.gz`,
  /**
   * Marks an hour with labels that MLflow does not have yet. It is written after `labeled`, and `etag` is the ETag of
   * that object. The function that writes the labels to MLflow removes only marks that it saw before it read the hour,
   * so it never removes the mark of a later change.
   */
  toPublish: (hour: string, etag: string) => `${truthKeys.toPublishOf(hour)}${etag}`,
  toPublishOf: (hour: string) => `${areaOf('truthOpen')}${hour}/`,
  /** The result of one invocation of a run. */
  invocation: (run: string, invocation: number) => `${areaOf('truthRuns')}${run}/parts/${padded(invocation)}.json`,
  summary: (run: string) => `${areaOf('truthRuns')}${run}/summary.json`,
  /** Files in the form of SageMaker Model Monitor. */
  reports: (day: string, file: string) => `${areaOf('truthReports')}${day}/${file}`,
};

/** Keys of the registrations of replays, which identify their requests among the captures. */
export const markKeys = {
  /** @param id 16 hex digits, which cannot be guessed */
  mark: (id: string) => `${areaOf('replayMarks')}${id}.json`,
};

/** Keys of a cloud replay. */
export const replayKeys = {
  prefix: (run: string) => `replays/${run}/`,
  /** The plan: the options, the target, the common start time, the shards. */
  plan: (run: string) => areaOf('replayPlan', run),
  manifest: (run: string) => areaOf('replayManifest', run),
  /** The requests of one shard: the location of each in S3, and its scheduled time. */
  schedule: (run: string, shard: number) => `${areaOf('replaySchedule', run)}${padded(shard, 4)}.json`,
  /** The stop order. While it exists, no shard sends. Its content is for people. */
  stop: (run: string) => areaOf('replayStop', run),
  /** The files of one shard. */
  shardPrefix: (run: string, shard: number) => `${areaOf('replayShards', run)}${padded(shard, 4)}/`,
  mapResultPrefix: (run: string) => areaOf('replayMapResult', run).slice(0, -1),
  /** The exchanges of one shard as capture lines, which a run of the monitoring traces and judges. */
  exchanges: (run: string, shard: number) => `${areaOf('replayExchanges', run)}${padded(shard, 4)}.jsonl`,
  /** The summary of a run over the exchanges: of the first one, or of a retry. */
  verdicts: (run: string, monitoringRun: string) => `${areaOf('replayVerdicts', run)}${monitoringRun}.json`,
  /** Metrics, parameters and final status of the MLflow run: the last object of a summary. */
  publication: (run: string) => areaOf('replayPublication', run),
  /** The file of the result set with the options, the counts and the missing parts. */
  figures: (run: string) => `${areaOf('replayResults', run)}replay.json`,
};
