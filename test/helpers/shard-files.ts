/** Bytes of a request's lines in all files of a shard besides its body: figures, headers, names. */
const RECORD_FILE_BYTES = 6_000;
/** At most, bytes in all files per captured byte: inputs, compared replies, base64 for MLflow. */
const FILES_PER_BYTE = 5.5;

/** What the files of a shard need on its disk, with `compare` and MLflow, if its replies are as large as the captured ones. */
export const plannedFileBytes = (requests: number, capturedBytes: number): number =>
  requests * RECORD_FILE_BYTES + capturedBytes * FILES_PER_BYTE;
