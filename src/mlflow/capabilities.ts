/** Determines the capabilities of a tracking server by its version, repeatedly, because the server may be replaced. */
import { PermanentError } from '../core/errors/errors.ts';

type ServerCapabilities = ReturnType<typeof capabilitiesOf>;

/** Earlier servers have no routes for the traces and assessments that are written: 3.0.0 and 3.1.4 were read. */
const OLDEST = '3.2';
/**
 * Before 3.13, `/v1/traces` drops tags. 3.13 gives all traces of a request the tags of the last one, and puts quotes
 * around sessions. Until 3.16, the tokens of a span that arrives twice are counted twice. Overlapping runs, or a request
 * that arrives after its timeout, would double them.
 */
const OTLP_SINCE = '3.17';

/** A server that was rolled back would accept OTLP and drop the tags. One small request per minute detects that. */
const REFRESH_MS = 60_000;

/**
 * @param version as the server reports it; `undefined` if it does not
 * @throws PermanentError `MlflowTooOld`
 */
function capabilitiesOf(version: string | undefined) {
  const isSince = (first: string): boolean => (version ?? OLDEST).localeCompare(first, 'en', { numeric: true }) >= 0;
  if (!isSince(OLDEST)) {
    throw new PermanentError('MlflowTooOld', 'This MLflow server is too old to store the traces', {
      got: `version ${version}`,
      expected: `version ${OLDEST} or newer, such as a SageMaker mlflow-app`,
    });
  }
  /** `otlp`: accepts many traces in one OTLP request, with tags and sessions. */
  return { version, otlp: isSince(OTLP_SINCE) };
}

/** Asks the server for its version, and again once a minute. */
export function capabilityProbe(readVersion: () => Promise<string | undefined>) {
  let known: Promise<ServerCapabilities> | undefined;
  let checkedAtMs = 0;
  /** OTLP turned out missing, for example behind a gateway with fewer routes. */
  let isWithoutOtlp = false;
  const probe = async (): Promise<ServerCapabilities> => {
    const can = capabilitiesOf(await readVersion());
    return { ...can, otlp: can.otlp && !isWithoutOtlp };
  };
  const get = (): Promise<ServerCapabilities> => {
    const age = Date.now() - checkedAtMs;
    // A negative age means that the clock was set back.
    if (age < 0 || age > REFRESH_MS) known = undefined;
    if (known === undefined) checkedAtMs = Date.now();
    known ??= probe().catch((error) => {
      known = undefined;
      throw error;
    });
    return known;
  };
  return {
    get,
    /** Notes that OTLP turned out missing, and asks again, because the server may have been replaced. */
    lacksOtlp: async (): Promise<void> => {
      isWithoutOtlp = true;
      known = undefined;
      await get();
    },
  };
}
