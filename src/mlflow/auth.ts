/** How a request shows who sends it. */

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
  /** All headers of the request, those that authorise it included. */
  authorize(request: SignableRequest): Promise<Record<string, string>>;
  /**
   * Called when the server did not accept them.
   *
   * @param reply.sent the headers that it did not accept: others may have taken their place meanwhile
   * @returns whether others may be accepted: then the request is worth sending again
   */
  renew(reply: RefusedReply): Promise<boolean>;
  /** What a person should check when access is denied. */
  readonly hint: string;
}

/** Of a plain URL. */
export type MlflowSecret = { username: string; password: string } | { token: string };
export type MlflowSecretSource = MlflowSecret | (() => Promise<MlflowSecret>);

export const anonymous: Authorizer = {
  authorize: async ({ headers }) => headers,
  renew: async () => false,
  hint: 'the server asks for credentials: set MLFLOW_SECRET_ARN',
};

/** Basic or token authentication. A secret that is loaded is loaded again when it stops being accepted (rotation). */
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
      // Of requests that were under way together the first that is refused loads the secret, for all of them.
      if ((await current()) === sent.authorization) header = undefined;
      return (await current()) !== sent.authorization;
    },
    hint: 'check the user and password, or the token, in the secret MLFLOW_SECRET_ARN',
  };
}
