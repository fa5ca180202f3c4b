/** The command line's table, help, exit codes and errors. */
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { EXIT } from '../../../bin/cli/output.ts';
import aiperfFlags from '../../../bin/commands/aiperf-flags.json' with { type: 'json' };
import { COMMANDS, GROUPS } from '../../../bin/commands.ts';
import { failureText, programFor } from '../../../bin/program.ts';
import { awsFailure, nameOperations } from '../../../src/core/errors/aws-failures.ts';
import { packagePath } from '../../../src/core/process/package-folder.ts';
import { expectPublished } from '../../helpers/published-json.ts';

const DOCS = readFileSync(packagePath('docs', 'commands.md'), 'utf8');
const summaries: Record<string, string> = Object.assign({}, ...Object.values(GROUPS));
const names = Object.keys(summaries);

/** What the command line prints, and the error that ends it. */
async function run(...args: string[]): Promise<{ text: string; error: unknown }> {
  let text = '';
  const program = await programFor(args, '1.2.3');
  const write = (part: string): void => {
    text += part;
  };
  for (const each of [program, ...program.commands]) each.configureOutput({ writeOut: write, writeErr: write });
  const error = await program.parseAsync(args, { from: 'user' }).catch((thrown: unknown) => thrown);
  return { text, error };
}

test('--help lists every command without loading one', async () => {
  const loads = names.map((name) => jest.spyOn(COMMANDS as Record<string, () => Promise<Command>>, name));
  const { text } = await run('--help');
  for (const load of loads) expect(load).not.toHaveBeenCalled();
  jest.restoreAllMocks();
  for (const name of names) expect(text).toContain(`\n  ${name} `);
  expect(await run('--version')).toMatchObject({ text: '1.2.3\n' });
});

test('what replay says in place of AIPerf’s options exists, and is not one of those', async () => {
  const own = (await COMMANDS.replay?.())?.options.filter(({ hidden }) => !hidden).map(({ long }) => long) ?? [];
  const named = Object.keys(aiperfFlags).flatMap((use) => use.match(/--[a-z-]+/g) ?? []);
  expect(named.filter((flag) => !own.includes(flag) && !['--help', '--debug', '--mlflow'].includes(flag))).toEqual([]);
  expect(
    Object.values(aiperfFlags)
      .flat()
      .filter((flag) => own.includes(flag)),
  ).toEqual([]);
});

test.each(names)(
  '%s: its help has the line of the table, options and examples, fits 80 columns, and has a section in the documentation',
  async (name) => {
    const own = await COMMANDS[name]?.();
    expect(own?.name()).toBe(name);
    // The table has it.
    expect(own?.description()).toBe('');
    for (const args of [
      [name, '--help'],
      ['help', name],
    ]) {
      const { text } = await run(...args);
      expect(text.replace(/\s+/g, ' ')).toContain(summaries[name]);
      expect(text).toMatch(/--debug +print the stack trace/);
      expect(text.split('\n').filter((line) => line.length > 80)).toEqual([]);
    }
    expect(DOCS).toMatch(new RegExp(`^## ${name}$`, 'm'));
  },
);

test.each([
  [['rats'], "unknown command 'rats' (Did you mean rates?)"],
  [['rates', '--form', '7d'], "unknown option '--form' (Did you mean --from?)"],
  [['judge'], "missing required argument 'captures'"],
  [
    ['find', '--traceparent', '00-1'],
    "option '--traceparent <id>' argument '00-1' is invalid. expected a traceparent such as 00-<32 hex digits>-<16 hex digits>-01, or its 32 hex digits",
  ],
])('%j is refused as any other error, in JSON too', async (args, message) => {
  const { text, error } = await run(...args);
  // It is printed with the others, when it has ended the program.
  expect(text).toBe('');
  expect(failureText(error, { debug: false, json: false })).toBe(`InvalidCommandLine: ${message}`);
  const printed = failureText(error, { debug: false, json: true });
  expect(expectPublished('error', printed)).toEqual({ error: { name: 'InvalidCommandLine', message } });
});

test('a global option is accepted before and after the command', async () => {
  const seen: unknown[] = [];
  const command = new Command('rates').action((_, self: Command) => {
    seen.push(self.optsWithGlobals());
  });
  const loaded = jest.spyOn(COMMANDS as Record<string, () => Promise<Command>>, 'rates').mockResolvedValue(command);
  await run('--debug', 'rates');
  await run('rates', '--no-color');
  loaded.mockRestore();
  expect(seen).toMatchObject([{ debug: true, color: true }, { color: false }]);
});

test('the documentation lists the exit codes', () => {
  const listed = [...DOCS.matchAll(/^\| (\d+) \|/gm)].map(([, code]) => Number(code));
  expect(listed).toEqual(Object.values(EXIT));
});

const sdk = (name: string, message: string, more: object = {}): Error =>
  Object.assign(new Error(message), { name, $metadata: {}, ...more });

const NO_POLICY =
  'User: arn:aws:sts::1:assumed-role/dev/me is not authorized to perform: states:StartExecution on resource: arn:aws:states:eu-west-1:1:stateMachine:m because no identity-based policy allows the states:StartExecution action';
const SSO_EXPIRED = 'The SSO session has expired. To refresh it run aws sso login';
const HEAD = { $metadata: { httpStatusCode: 403 }, operation: 's3:HeadObject' };

test.each<[name: string, Error, RegExp]>([
  ['AwsRegionMissing', new Error('Region is missing'), /expected: AWS_REGION/],
  ['AwsCredentialsMissing', sdk('CredentialsProviderError', 'Could not load credentials from any'), /AWS_PROFILE/],
  ['AwsCredentialsExpired', sdk('CredentialsProviderError', SSO_EXPIRED), /: aws sso login/],
  ['AwsCredentialsExpired', sdk('TokenProviderError', 'Token is expired. To refresh this SSO session run x'), /sso/],
  ['AwsCredentialsExpired', sdk('ExpiredToken', 'The provided token has expired.'), /got: ExpiredToken: The provided/],
  ['AwsCredentialsExpired', sdk('ExpiredTokenException', 'The security token in the request is expired'), /fresh/],
  ['AwsCredentialsInvalid', sdk('UnrecognizedClientException', 'The security token is invalid.'), /enabled for it/],
  [
    'AccessDenied',
    sdk('AccessDeniedException', NO_POLICY),
    /a policy that allows you states:StartExecution on arn:.*:m$/,
  ],
  ['AccessDenied', sdk('403', 'UnknownError', HEAD), /you s3:GetObject$/],
  ['AccessDenied', sdk('AccessDenied', 'Access Denied'), /a policy that allows it$/],
  ['Throttled', sdk('ThrottlingException', 'Rate exceeded'), /in a minute/],
  ['ClockSkewed', sdk('RequestTimeTooSkewed', 'The difference is too large'), /UTC/],
  ['ClockSkewed', sdk('InvalidSignatureException', 'Signature expired: 20261123T000000Z is now earlier than'), /UTC/],
  ['AwsUnreachable', sdk('Error', 'getaddrinfo ENOTFOUND states.eu-west-9.x', { code: 'ENOTFOUND' }), /is eu-west-9$/],
  ['AwsUnreachable', sdk('AggregateError', '', { code: 'ECONNREFUSED' }), /got: ECONNREFUSED;/],
  ['CertificateRefused', sdk('Error', 'self-signed', { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' }), /NODE_EXTRA_CA_CERTS/],
])('%s: %s', (name, error, message) => {
  process.env.AWS_REGION = 'eu-west-9';
  expect(awsFailure(error)).toEqual({ name, message: expect.stringMatching(message) });
  const wrapped = new Error('The captures cannot be read', { cause: new Error('lost', { cause: error }) });
  if ('$metadata' in error) expect(awsFailure(wrapped)?.name).toBe(name);
  delete process.env.AWS_REGION;
});

test('an error of another program keeps its own words', () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5000'), { code: 'ECONNREFUSED' });
  expect(awsFailure(new Error('MLflow cannot be reached', { cause: refused }))).toBeUndefined();
  expect(awsFailure(new Error('no such file'))).toBeUndefined();
});

test('an error of a client says what was asked', async () => {
  const { S3Client, HeadObjectCommand } = await import('@aws-sdk/client-s3');
  const client = nameOperations(
    new S3Client({
      region: 'eu-west-1',
      credentials: async () => {
        throw new Error('none');
      },
    }),
  );
  await expect(client.send(new HeadObjectCommand({ Bucket: 'b', Key: 'k' }))).rejects.toMatchObject({
    operation: 's3:HeadObject',
  });
});

test('an error is one line, in JSON with --json, and has its stack with --debug alone', () => {
  const error = Object.assign(new Error('no scorer\u001b[31m; got: x'), { name: 'UnknownName' });
  expect(failureText(error, { debug: false, json: false })).toBe('UnknownName: no scorer [31m; got: x');
  expect(failureText(error, { debug: true, json: false })).toMatch(/^UnknownName: .*\n(?:.*\n)*.*program\.test\.ts/);
  const { name, message } = error;
  expect(JSON.parse(failureText(error, { debug: false, json: true }))).toEqual({ error: { name, message } });
  expect(JSON.parse(failureText('odd', { debug: false, json: true }))).toEqual({
    error: { name: 'Error', message: 'odd' },
  });
  const listed = Object.assign(new Error('Some settings are wrong:\n  A: is empty\n\n  B: is no number\n'), {
    name: 'E',
  });
  expect(failureText(listed, { debug: false, json: false })).toBe(
    'E: Some settings are wrong: A: is empty; B: is no number',
  );
  expect(failureText(new Error(''), { debug: false, json: false })).toBe('Error: ');
});
