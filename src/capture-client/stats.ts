/** The numbers of captures since the process started, by their state. */
export interface CaptureStats {
  /** Streams that run now. */
  open: number;
  /** Captures that wait to be written. */
  waiting: number;
  /** Captures that are in S3. */
  written: number;
  /** Captures that went to the spool folder; those that left it for S3 are in `written` too. */
  spooled: number;
  /** Captures that are lost. */
  dropped: number;
  /** Contents that were too large, not readable twice, or over the bound of the memory. */
  withoutContent: number;
  /** The last failure of the capture, such as S3's refusal. It is not one of the application's requests. */
  lastError: string | undefined;
}
