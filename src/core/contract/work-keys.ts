/** The keys of the work bucket. Permissions for a key are derived from the same functions. */

/** Ordinals are zero-padded, so that a listing of a prefix is sorted. 8 digits leave room for 10^8 chunks. */
const padded = (ordinal: number, digits = 8): string => String(ordinal).padStart(digits, '0');

/** Keys of the monitoring pipeline. */
export const workKeys = {
  /** The capture files of a run that the starter starts. */
  startList: (run: string) => `${workKeys.startsPrefix}${run}.jsonl`,
  startsPrefix: 'starts/',
  runPrefix: (run: string) => `runs/${run}/`,
  /**
   * @param attempt distinguishes the attempts at planning the part. The receipt of the plan names the attempt that
   *   counts
   */
  manifest: (run: string, part: number, attempt: string) =>
    `${workKeys.manifestPrefix(run)}${padded(part)}-${attempt}.jsonl`,
  manifestPrefix: (run: string) => `runs/${run}/manifest/`,
  /** The ranges of a chunk, if its line in the manifest would be too long. */
  ranges: (run: string, chunk: number, attempt: string) =>
    `${workKeys.rangesPrefix(run)}${padded(chunk)}-${attempt}.json`,
  rangesPrefix: (run: string) => `runs/${run}/ranges/`,
  plan: (run: string, part: number) => `${workKeys.planPrefix(run)}${padded(part)}.json`,
  planPrefix: (run: string) => `runs/${run}/plan/`,
  receiptPrefix: (run: string) => `runs/${run}/receipts/`,
  /** In a listing, receipts of this chunk and of later chunks come after this key. */
  receiptsFrom: (run: string, chunk: number) => `${workKeys.receiptPrefix(run)}${padded(chunk)}`,
  receipt: (run: string, chunk: number, step: 'log' | 'evaluate', attempt: number, requestId: string) =>
    `${workKeys.receiptsOfChunk(run, chunk, step)}${padded(attempt, 3)}-${requestId}.json`,
  receiptsOfChunk: (run: string, chunk: number, step: 'log' | 'evaluate') =>
    `${workKeys.receiptPrefix(run)}${padded(chunk)}/${step}-`,
  /** Messages of other programs when an attempt failed. */
  words: (run: string, chunk: number, step: 'log' | 'evaluate', attempt: number, requestId: string) =>
    `${workKeys.wordsPrefix(run)}${padded(chunk)}/${step}-${padded(attempt, 3)}-${requestId}.json`,
  /** Bedrock's reasons for refusing a batch job. */
  batchWords: (run: string, group: number) => `${workKeys.wordsPrefix(run)}batch-${padded(group)}.json`,
  wordsPrefix: (run: string) => `runs/${run}/words/`,
  /** The line at work, where the function was killed on the chunk before. */
  lineAtWork: (run: string, chunk: number, step: 'evaluate' | 'prepare') =>
    `${workKeys.lineAtWorkPrefix(run)}${padded(chunk)}-${step}.json`,
  lineAtWorkPrefix: (run: string) => `runs/${run}/at-work/`,
  /** A long answer of the judge, by the first run of a chain of retries and the digest of the question. */
  answer: (chain: string, question: string) => `${workKeys.answersOf(chain)}${question}.json`,
  answersOf: (chain: string) => `answers/${chain}/`,
  chunkOfRun: (run: string, chunk: number) => `${workKeys.chunksOfRun(run)}${padded(chunk)}`,
  chunksOfRun: (run: string) => `${run}/`,
  mapResultPrefix: (run: string) => `runs/${run}/map`,
  batchMapResultPrefix: (run: string) => `runs/${run}/map-batch`,
  summary: (run: string) => `runs/${run}/summary.json`,
  /** SummarizeRun's sums so far, for its next invocation. */
  summaryState: (run: string, part: number) => `${workKeys.summaryStatePrefix(run)}${padded(part)}.json`,
  summaryStatePrefix: (run: string) => `runs/${run}/summary-state/`,
  quarantine: (run: string, chunk: number) => `${workKeys.quarantinePrefix(run)}${padded(chunk)}.jsonl`,
  quarantinePrefix: (run: string) => `quarantine/${run}/`,
  /** The requests of a chunk for Bedrock batch inference. The files of a group are the input of one job. */
  batchInput: (run: string, group: number, chunk: number) =>
    `${workKeys.batchInputPrefix(run, group)}${padded(chunk)}.jsonl`,
  batchInputsPrefix: (run: string) => `batch/${run}/input/`,
  batchInputPrefix: (run: string, group: number) => `${workKeys.batchInputsPrefix(run)}${padded(group)}/`,
  batchOutputPrefix: (run: string) => `batch/${run}/output/`,
  /** Bedrock writes the answers to `batchInput` here. */
  batchOutput: (run: string, jobId: string, chunk: number) =>
    `${workKeys.batchOutputPrefix(run)}${jobId}/${padded(chunk)}.jsonl.out`,
  batchStatePrefix: (run: string) => `batch/${run}/state/`,
  batchPrepared: (run: string, chunk: number) => `${workKeys.batchStatePrefix(run)}prepared/${padded(chunk)}.json`,
  batchJobs: (run: string) => `${workKeys.batchStatePrefix(run)}jobs.json`,
  batchManifest: (run: string) => `${workKeys.batchStatePrefix(run)}manifest.jsonl`,
  claim: (digest: string) => `claims/${digest}.json`,
  countsPrefix: 'counts/',
  /** The state of the detectors of all objectives. */
  detectors: 'counts/detectors.json',
  /**
   * Records the second (epoch) at which an objective became missed or met. `digest` identifies the objective and the
   * change.
   */
  change: (second: number, digest: string) => `${workKeys.changesPrefix}${padded(second, 11)}-${digest}.json`,
  changesPrefix: 'counts/turns/',
  /** The newest measurement of an objective for true answers. */
  measured: (objective: string) => `${workKeys.measuredPrefix}${objective}.json`,
  measuredPrefix: 'counts/measured/',
  /** The page about the endpoint, as it was on a day (UTC), and the newest one. */
  report: (name: string) => `${workKeys.reportsPrefix}${name}.html`,
  reportsPrefix: 'reports/',
  /** The receipt of a forwarded capture file. `digest` is computed from its location and ETag. */
  forward: (digest: string) => `${workKeys.forwardsPrefix}${digest}.json`,
  forwardsPrefix: 'forwards/',
};

/** The tables of the ledger whose parts are sent to an OpenTelemetry receiver. */
export const SENT_TABLES = ['captures', 'verdicts'] as const;

/**
 * Keys of the ledger: the outcome of captured lines, as rows. A day is the day of the inference (UTC), such as
 * `2026-11-20`.
 */
export const ledgerKeys = {
  prefix: 'ledger/',
  /** All files of a table. */
  table: (table: string) => `${ledgerKeys.prefix}${table}/`,
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
  forgotten: 'ledger/forgotten.json',
  /** The windows of captures that are no traffic. */
  excluded: 'ledger/excluded.json',
  /** The results of queries, which Athena writes. */
  resultsPrefix: 'athena/',
};

/** Keys of ground truth. An hour is the hour of the inference (UTC), such as `2026-11-20T10`. */
export const truthKeys = {
  prefix: 'ground-truth/',
  /** Label files that a person uploads. */
  upload: (name: string) => `${truthKeys.uploadsPrefix}${name}`,
  uploadsPrefix: 'ground-truth/uploads/',
  /**
   * Labels of a file that have no prediction yet. `segment` is the digest of the file's place, ETag and time, a hyphen, and a number:
   * a segment has as many labels as are in memory at a time.
   */
  waiting: (segment: string) => `${truthKeys.waitingPrefix}${segment}.jsonl.gz`,
  waitingPrefix: 'ground-truth/waiting/',
  /** The report on a label file. It is written after all segments, so that no label of a partly read file is joined. */
  file: (digest: string) => `${truthKeys.filesPrefix}${digest}.json`,
  filesPrefix: 'ground-truth/files/',
  /** The labeled predictions of an hour. */
  labeled: (hour: string) => `${truthKeys.labeledPrefix}${hour}.jsonl.gz`,
  labeledPrefix: 'ground-truth/labeled/',
  /**
   * Marks an hour with labels that MLflow does not have yet. It is written after `labeled`, and `etag` is the ETag of
   * that object. The function that writes the labels to MLflow removes only marks that it saw before it read the hour,
   * so it never removes the mark of a later change.
   */
  toPublish: (hour: string, etag: string) => `${truthKeys.toPublishOf(hour)}${etag}`,
  toPublishOf: (hour: string) => `${truthKeys.toPublishPrefix}${hour}/`,
  toPublishPrefix: 'ground-truth/to-note/',
  /** The result of one invocation of a run. */
  invocation: (run: string, invocation: number) => `${truthKeys.runsPrefix}${run}/parts/${padded(invocation)}.json`,
  summary: (run: string) => `${truthKeys.runsPrefix}${run}/summary.json`,
  runsPrefix: 'ground-truth/runs/',
  /** Files in the form of SageMaker Model Monitor. */
  reports: (day: string, file: string) => `${truthKeys.reportsPrefix}${day}/${file}`,
  reportsPrefix: 'ground-truth/reports/',
};

/** Keys of the registrations of replays, which identify their requests among the captures. */
export const markKeys = {
  /** @param id 16 hex digits, which cannot be guessed */
  mark: (id: string) => `${markKeys.prefix}${id}.json`,
  prefix: 'replay-marks/',
};

/** Keys of a cloud replay. */
export const replayKeys = {
  prefix: (run: string) => `replays/${run}/`,
  /** The plan: the options, the target, the common start time, the shards. */
  plan: (run: string) => `replays/${run}/plan.json`,
  manifest: (run: string) => `replays/${run}/manifest.jsonl`,
  /** The requests of one shard: the location of each in S3, and its scheduled time. */
  schedule: (run: string, shard: number) => `${replayKeys.schedulePrefix(run)}${padded(shard, 4)}.json`,
  schedulePrefix: (run: string) => `replays/${run}/schedule/`,
  /** The stop order. While it exists, no shard sends. Its content is for people. */
  stop: (run: string) => `replays/${run}/stop.json`,
  /** The files of one shard. */
  shardPrefix: (run: string, shard: number) => `${replayKeys.shardsPrefix(run)}${padded(shard, 4)}/`,
  shardsPrefix: (run: string) => `replays/${run}/shards/`,
  mapResultPrefix: (run: string) => `replays/${run}/map`,
  /** The exchanges of one shard as capture lines, which a run of the monitoring traces and judges. */
  exchanges: (run: string, shard: number) => `${replayKeys.exchangesPrefix(run)}${padded(shard, 4)}.jsonl`,
  exchangesPrefix: (run: string) => `replays/${run}/exchanges/`,
  /** The summary of a run over the exchanges: of the first one, or of a retry. */
  verdicts: (run: string, monitoringRun: string) => `${replayKeys.verdictsPrefix(run)}${monitoringRun}.json`,
  verdictsPrefix: (run: string) => `replays/${run}/verdicts/`,
  /** Metrics, parameters and final status of the MLflow run: the last object of a summary. */
  publication: (run: string) => `replays/${run}/publication.json`,
  /** The figures, with the same file names as on the command line. */
  resultPrefix: (run: string) => `replays/${run}/results/`,
  /** The file of the result set with the options, the counts and the missing parts. */
  figures: (run: string) => `${replayKeys.resultPrefix(run)}replay.json`,
};
