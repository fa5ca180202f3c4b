/** Parses the tracking URI: the URL of a plain server, or the ARN of an MLflow app of SageMaker. */
import { PermanentError } from '../core/errors/errors.ts';

export interface ManagedMlflowTarget {
  kind: 'mlflow-app';
  baseUrl: URL;
  arn: string;
  region: string;
}

export type TrackingTarget = { kind: 'url'; baseUrl: URL } | ManagedMlflowTarget;

/**
 * Returns the address of the server's web page. Returns `undefined` for a managed server, whose page needs a login
 * through AWS.
 */
export const webPageOf = (target: TrackingTarget): string | undefined =>
  target.kind === 'url' ? `${target.baseUrl.origin}${target.baseUrl.pathname}` : undefined;

const ARN = /^arn:aws[a-z-]*:sagemaker:([a-z0-9-]+):\d{12}:mlflow-app\/[^/]+$/;

/**
 * @param customEndpoint replaces the URL of an ARN's service (`SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT`) without changing the signature
 * @throws PermanentError `MlflowTrackingUriInvalid`
 */
export function parseTrackingUri(trackingUri: string, customEndpoint?: string): TrackingTarget {
  const [, region] = ARN.exec(trackingUri) ?? [];
  if (region === undefined) return { kind: 'url', baseUrl: parseUrl(trackingUri) };
  const baseUrl = parseUrl(customEndpoint || `https://mlflow.sagemaker.${region}.app.aws`);
  return { kind: 'mlflow-app', baseUrl, arn: trackingUri, region };
}

function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url && (url.protocol === 'http:' || url.protocol === 'https:') && !url.username && !url.password) return url;
  throw new PermanentError('MlflowTrackingUriInvalid', 'The tracking URI is invalid', {
    // A URL can contain a password.
    got: url?.password ? `${url.protocol}//…@${url.host}` : text,
    expected:
      'an http(s) URL without user and password (they belong in the secret), or an ARN like arn:aws:sagemaker:<region>:<account>:mlflow-app/<id>',
  });
}
