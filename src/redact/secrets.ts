/** Secrets: keys, tokens, passwords, private keys. */

import type { RedactKind } from '../core/settings/redact-setting.ts';
import type { Form } from './form.ts';

const asIs = (text: string): string => text;

/** User and password of a URL. Begins with the sign, which is rare, and looks behind it. */
const URL_USER = /:\/\/(?<=\b[a-z][a-z0-9+.-]{1,20}:\/\/)([^\s/?#@:"'<>]*:[^\s/?#@"'<>]+)(?=@)/giu;
/** A parameter of a URL that grants access. */
const URL_TOKEN =
  /[?&#](?:access_token|refresh_token|id_token|client_secret|auth|auth_token|token|api_?key|key|sig|signature|password|passwd|pwd|passwort|kennwort|contrasena|clave|senha|motdepasse|mdp|wachtwoord|haslo|heslo|passord|secret|x-amz-signature|x-amz-security-token|x-goog-signature)=([^&#\s"'<>\\]{6,})/giu;

/** Keys that begin with what their issuer writes in front of them. */
const KEY_ISSUED =
  /(?<![\p{L}\d_-])(?:(?:AKIA|ASIA)[A-Z2-7]{16}|gh[opsur]_[A-Za-z0-9]{36,}|github_pat_\w{22,}|glpat-[\w-]{20,}|sk-[\w-]{20,}|[prs]k_(?:live|test)_[A-Za-z0-9]{16,}|xox[a-z]-[A-Za-z0-9-]{10,}|AIza[\w-]{35}|ya29\.[\w-]{20,}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,}|SG\.[\w-]{16,32}\.[\w-]{16,64}|shp(?:at|ca|pa|ss)_[a-f0-9]{32}|dop_v1_[a-f0-9]{64}|nvapi-[\w-]{40,}|gsk_[A-Za-z0-9]{40,}|GOCSPX-[\w-]{28}|dapi[0-9a-f]{32}|SK[0-9a-f]{32}|hooks\.slack\.com\/services\/[\w/]{20,})(?![\p{L}\d_-])/gu;
const KEY_HINT =
  /\b(?:AKIA|ASIA|gh[opsur]_|github_pat_|glpat-|sk-|[prs]k_|xox|AIza|ya29|hf_|npm_|pypi-|SG\.|shp|dop_v1_|nvapi-|gsk_|GOCSPX-|dapi|SK[0-9a-f]{32}|hooks\.slack)/;
/** A value after a word that announces a secret. */
const KEY_NAMED =
  /(?:(?:api|secret|access|auth|client|private|account|shared|subscription|signing|encryption)[ _-]?(?:access[ _-]?)?(?:key|token|secret)(?:[ _-]?id)?["']?[ \t]{0,3}(?:is|=>|[:=\u2010-\u2015]{1,2})?[ \t]{0,3}["']?|\b(?:bearer|basic)[ \t]{1,3}[\u2010-\u2015]?)([\w+/.~-]{16}[\w+/.~-]*={0,2})/giu;
const PRIVATE_KEY =
  /-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[\sA-Za-z0-9+/=,:\\]*(?:-(?!----)[\sA-Za-z0-9+/=,:\\]*)*-----END [A-Z ]{0,20}PRIVATE KEY-----/gu;
/** A word is no key. */
const secret = (text: string): string | undefined => (/\d/.test(text) && /[a-z]/i.test(text) ? text : undefined);

const JWT = /(?<![\w.-])eyJ[\w-]{8,}\.(?:eyJ[\w-]{8,}\.[\w-]*|[\w-]*(?:\.[\w-]+){3})(?![\w-])/gu;

/** The kinds of secrets, each with its forms. The order is that in which they are looked for. */
export const SECRETS = {
  jwt: [{ pattern: JWT, hint: /eyJ[\w-]/, read: asIs }],
  url_credentials: [
    { pattern: URL_USER, hint: /:\/\/[^\s/?#@"'<>]+@/, read: asIs },
    { pattern: URL_TOKEN, hint: /[?&#][\w-]+=/, read: asIs },
  ],
  api_key: [
    { pattern: PRIVATE_KEY, hint: /PRIVATE KEY-/, read: asIs },
    { pattern: KEY_ISSUED, hint: KEY_HINT, read: asIs },
    { pattern: KEY_NAMED, hint: /key|token|secret|bearer|basic/i, read: secret },
  ],
} satisfies Partial<Record<RedactKind, readonly Form[]>>;
