/** Authenticates requests to MLflow. */

interface SignableRequest {
  method: string;
  url: URL;
  headers: Record<string, string>;
  body?: Uint8Array;
}

export interface RefusedReply {
  status: number;
  text: string;
  errorType: string;
  sent: Record<string, string>;
}

export interface Authorizer {
  /** Returns all headers of the request, including those that authenticate it. */
  authorize(request: SignableRequest): Promise<Record<string, string>>;
  /**
   * Called when the server rejected the headers.
   *
   * @param reply.sent the rejected headers; another call may have renewed them since
   * @returns whether the request is worth sending again, with other headers
   */
  renew(reply: RefusedReply): Promise<boolean>;
  /** Tells a person what to check if access is denied. */
  readonly hint: string;
}

/** The credentials of a plain URL. */
export type MlflowSecret = { username: string; password: string } | { token: string };
export type MlflowSecretSource = MlflowSecret | (() => Promise<MlflowSecret>);

export const anonymous: Authorizer = {
  authorize: async ({ headers }) => headers,
  renew: async () => false,
  hint: 'the server asks for credentials: set MLFLOW_SECRET_ARN',
};

/** Authenticates by user and password, or by token. A loaded secret is loaded again when the server rejects it (rotation). */
export function secretAuthorizer(source: MlflowSecretSource): Authorizer {
  let header: Promise<string> | undefined;
  const load = async () => {
    const secret = typeof source === 'function' ? await source() : source;
    if ('token' in secret) return `Bearer ${secret.token}`;
    return `Basic ${Buffer.from(`${secret.username}:${secret.password}`).toString('base64')}`;
  };
  const current = (): Promise<string> => {
    header ??= load().catch((error) => {
      header = undefined;
      throw error;
    });
    return header;
  };
  return {
    authorize: async ({ headers }) => ({ ...headers, authorization: await current() }),
    renew: async ({ status, sent }) => {
      if (status !== 401 || typeof source !== 'function') return false;
      // Of several requests in flight, the first that is rejected loads the secret for all.
      if ((await current()) === sent.authorization) header = undefined;
      return (await current()) !== sent.authorization;
    },
    hint: 'check the user and password, or the token, in the secret MLFLOW_SECRET_ARN',
  };
}
