/** Parses the tracking URI: the URL of a plain server, or the ARN of one of SageMaker's two kinds of managed MLflow. */
import { PermanentError } from '../core/errors/errors.ts';

export interface ManagedMlflowTarget {
  kind: 'mlflow-tracking-server' | 'mlflow-app';
  baseUrl: URL;
  arn: string;
  region: string;
  /** The service name in the SigV4 signature. */
  signingService: string;
  /** The header that contains the ARN. */
  arnHeader: string;
}

export type TrackingTarget = { kind: 'url'; baseUrl: URL } | ManagedMlflowTarget;

/**
 * Returns the address of the server's web page. Returns `undefined` for a managed server, whose page needs a login
 * through AWS.
 */
export const webPageOf = (target: TrackingTarget): string | undefined =>
  target.kind === 'url' ? `${target.baseUrl.origin}${target.baseUrl.pathname}` : undefined;

const SAGEMAKER_KINDS = {
  'mlflow-tracking-server': {
    host: (region: string) => `${region}.experiments.sagemaker.aws`,
    signingService: 'sagemaker-mlflow',
    arnHeader: 'x-mlflow-sm-tracking-server-arn',
  },
  'mlflow-app': {
    host: (region: string) => `mlflow.sagemaker.${region}.app.aws`,
    signingService: 'sagemaker',
    arnHeader: 'x-sm-mlflow-app-arn',
  },
} as const;

const ARN = /^arn:aws[a-z-]*:sagemaker:([a-z0-9-]+):\d{12}:(mlflow-tracking-server|mlflow-app)\/[^/]+$/;

/**
 * @param customEndpoint replaces the URL of an ARN's service (`SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT`) without changing the signature
 * @throws PermanentError `MlflowTrackingUriInvalid`
 */
export function parseTrackingUri(trackingUri: string, customEndpoint?: string): TrackingTarget {
  const arn = ARN.exec(trackingUri);
  if (arn) {
    const [, region = '', kind] = arn;
    const { host, signingService, arnHeader } = SAGEMAKER_KINDS[kind as keyof typeof SAGEMAKER_KINDS];
    const baseUrl = parseUrl(customEndpoint || `https://${host(region)}`);
    return { kind: kind as ManagedMlflowTarget['kind'], baseUrl, arn: trackingUri, region, signingService, arnHeader };
  }
  return { kind: 'url', baseUrl: parseUrl(trackingUri) };
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && (url.protocol === 'http:' || url.protocol === 'https:') && !url.username && !url.password) return url;
  throw new PermanentError('MlflowTrackingUriInvalid', 'The tracking URI is invalid', {
    // A URL can contain a password.
    got: url?.password ? `${url.protocol}//…@${url.host}` : text,
    expected:
      'an http(s) URL without user and password (they belong in the secret), or an ARN like arn:aws:sagemaker:<region>:<account>:mlflow-tracking-server/<name> or …:mlflow-app/<id>',
  });
}
