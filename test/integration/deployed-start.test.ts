/** `npm start` and `npm run smoke` as a user runs them: as commands, using only their output. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join, resolve } from 'node:path';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { mixedLines } from '../helpers/deployed-captures.ts';
import { descendantsOf, listeningOf, runningProcesses } from '../helpers/deployed-processes.ts';
import { startDeployedReader } from '../helpers/deployed-reader.ts';
import { type Command, command, startCommand } from '../helpers/start-command.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

/** The shell of a user who works with AWS. Only its judging settings may reach the emulated side. */
const PERSONS_SHELL = {
  AWS_PROFILE: 'production',
  AWS_ACCESS_KEY_ID: 'AKIAEXAMPLE',
  AWS_SECRET_ACCESS_KEY: 'secret',
  AWS_REGION: 'eu-central-1',
  AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:9',
  AWS_USE_FIPS_ENDPOINT: 'true',
  MLFLOW_TRACKING_URI: 'http://127.0.0.1:9',
  STACK_PREFIX: 'production',
  JUDGE_RATIONALES: 'all',
  JUDGE_BASE_URL: 'http://127.0.0.1:9/v1',
  EVALUATION_BUDGET_USD: '5',
};

describe('npm start', () => {
  let folder: string;
  let start: Command;
  let variables: Record<string, string>;

  beforeAll(async () => {
    await defaultPythonEnvironment();
    folder = temporaryFolder('start-');
    const hour = join(folder, 'downloads', 'weather-llm', 'blue', '2026', '11', '20', '10');
    mkdirSync(hour, { recursive: true });
    writeFileSync(join(hour, 'a.jsonl'), mixedLines('start-a').join('\n'));
    writeFileSync(join(hour, 'b.jsonl'), mixedLines('start-b').join('\n'));
    // The bundles of the test run, which the same code makes.
    const { FUNCTION_BUNDLES = '' } = process.env;
    const own = ['--scorer-file', packagePath('examples', 'scorers', 'custom_metric.py')];
    start = startCommand([folder, ...own], { ...PERSONS_SHELL, FUNCTION_BUNDLES });
    await new Promise<void>((resolve, reject) => {
      const timer = setInterval(() => {
        if (start.output().includes('until Ctrl-C')) resolve();
      }, 200);
      void start.code.then((code) => reject(new Error(`npm start ended with ${code}:\n${start.output()}`)));
      void start.code.finally(() => clearInterval(timer));
    });
    const [, envFile = ''] = /^source (\S+)$/m.exec(start.output()) ?? [];
    const print = `. ${resolve(packagePath(), envFile)} && env -0`;
    const shell = execFileSync('sh', ['-c', print], { env: PERSONS_SHELL, encoding: 'utf8' });
    variables = Object.fromEntries(shell.split('\0').map((line) => line.split(/=(.*)/s).slice(0, 2)));
    delete variables[''];
  });

  afterAll(() => {
    start.process.kill('SIGKILL');
  });

  test('prints the outcome of the captures, in agreement with MLflow', async () => {
    expect(start.output()).toMatch(/^custom_metric +mean \d/m);
    const [line = ''] = /^captured \d.*$/m.exec(start.output()) ?? [];
    const numbers = Object.fromEntries(
      [...line.matchAll(/([a-z ]+) \$?([\d.]+)/g)].map(([, name = '', value]) => [name.trim(), Number(value)]),
    );
    const reader = await startDeployedReader(variables, variables.MLFLOW_TRACKING_URI ?? '');
    const found = await reader.compare(variables.CAPTURE_BUCKET ?? '', 'weather-llm');
    reader.stop();
    expect(found).toMatchObject({ lines: 12, records: 10, traced: 10, missing: [], extra: [], wrong: {} });
    const assessed = Object.values(found.assessments);
    expect(numbers).toMatchObject({
      captured: 12,
      traced: 10,
      quarantined: 2,
      judged: assessed.filter(({ length }) => length > 0).length,
      verdicts: assessed.flat().length,
    });
    expect(numbers.runs).toBe(1);
    expect(numbers.judge).toBe(0);
  });

  test('names the judge of each verdict in MLflow as a stand-in, which costs nothing', async () => {
    const worst = command('../bin/inference-monitor.ts', ['worst', '--from', '2026-11-01', '--json'], variables);
    await worst.code;
    const sources = [...worst.output().matchAll(/"source": "(.*)"/g)].map(([, source]) => source);
    expect(sources.filter((source) => source?.includes('claude'))).not.toEqual([]);
    expect(sources.filter((source) => source?.startsWith('bedrock:'))).toEqual([]);
    const dry = command('../bin/inference-monitor.ts', ['process', 'weather-llm/', '--dry-run'], variables);
    await dry.code;
    expect(dry.output()).toMatch(/ calls of stand-in for bedrock:\/\S+\n.*judge: about \$0\.00\n/);
    expect(dry.output()).toContain('claude-sonnet-5-5 costs nothing');
  });

  (existsSync('/proc/net/tcp') ? test : test.skip)('listens on loopback alone', () => {
    const pid = start.process.pid ?? 0;
    const listening = listeningOf([pid, ...descendantsOf(pid)]);
    // The emulated AWS, MLflow, the judge, and the endpoint of the stand-in.
    expect(listening.length).toBeGreaterThanOrEqual(3);
    // 127.0.0.1 and ::1, in the byte order of the machine.
    expect(listening.filter((one) => !/^(0100007F|0{24}01000000|0{16}FFFF00000100007F):/.test(one))).toEqual([]);
  });

  test('doctor and calibrate use the stand-in with the printed variables', async () => {
    const doctor = command('../bin/inference-monitor.ts', ['doctor'], variables);
    const asked = ['calibrate', '--anchors', '--scorer', 'safety', '--json'];
    const calibrate = command('../bin/inference-monitor.ts', asked, variables);
    expect(await doctor.code).toBe(0);
    expect(doctor.output()).toMatch(/^acts on: emulator of npm start\n/m);
    expect(doctor.output()).toMatch(/^ok +judge .* \(The answer is from http:\S+, not from Bedrock\.\)$/m);
    expect(doctor.output()).toMatch(/^ok +captures +The newest capture under s3:/m);
    expect(doctor.output()).toMatch(/^ok +mlflow +Version /m);
    expect(await calibrate.code).toBe(0);
    expect(calibrate.output()).toMatch(/"n": 8,/);
  });

  test.each([
    ['states that the verdicts are the stand-in’s', /^Verdicts are by a stand-in's rules/m],
    ['prints the verdicts', /^safety +good \d+\.\d%/m],
    [
      'shows why lines are in quarantine, with their place',
      /── Quarantined ──[\s\S]*^ *\S*weather-llm\S+a\.jsonl:\d+: the line .+$/m,
    ],
    ['lists which of the user’s settings apply', /^your settings that apply: JUDGE_RATIONALES$/m],
    [
      'lists which of them do not apply',
      /^your settings that do not apply, since the stand-in judges and nothing is paid: JUDGE_BASE_URL, EVALUATION_BUDGET_USD$/m,
    ],
  ])('%s', (_, line) => expect(start.output()).toMatch(line));

  test('prints the address of the MLflow page', async () => {
    const address = /^traces: (http:\S+)\/#\/experiments\/\d+\/traces/m.exec(start.output());
    const page = await fetch(address?.[1] ?? 'about:blank');
    expect(page.status).toBe(200);
    expect(await page.text()).toContain('MLflow');
  });

  test('npm run smoke finds every step with the printed variables', async () => {
    const smoke = command('../test/aws/smoke.ts', [], variables);
    const code = await smoke.code;
    expect(smoke.output().match(/^(ok|MISSING) +\w+/gm)).toEqual(
      ['stack', 'object', 'execution', 'summary', 'trace', 'verdicts'].map((step) => `ok       ${step}`),
    );
    expect(code).toBe(0);
  });

  test('leaves no process and no file after Ctrl-C', async () => {
    const own = `-${start.process.pid}-`;
    const traces = () => [
      ...runningProcesses()
        .map(({ args }) => args)
        .filter((args) => args.includes(`environment${own}`) || args.includes(`ministack${own}`)),
      ...readdirSync(packagePath('.local')).filter((name) => name.includes(own)),
    ];
    expect(traces()).not.toEqual([]);
    start.process.kill('SIGINT');
    expect(await start.code).toBe(0);
    expect(traces()).toEqual([]);
    for (const url of [variables.AWS_ENDPOINT_URL, variables.MLFLOW_TRACKING_URI]) {
      await expect(fetch(url ?? '')).rejects.toThrow('fetch failed');
    }
  });
});

describe('npm start explains what to do', () => {
  const taken = createServer().listen(0, '127.0.0.1');
  afterAll(() => taken.close());
  const none = { AWS_CONFIG_FILE: '/none', AWS_SHARED_CREDENTIALS_FILE: '/none', AWS_EC2_METADATA_DISABLED: 'true' };

  test.each<[string, () => string[], RegExp]>([
    [
      'a port is in use',
      () => ['--mlflow-port', String((taken.address() as AddressInfo).port)],
      /Port \d+ is in use[\s\S]*Set another one with --mlflow-port/,
    ],
    [
      '--bedrock has no credentials',
      () => ['--bedrock'],
      /AWS credentials are missing\n +got: CredentialsProviderError/,
    ],
  ])('if %s', async (_, options, said) => {
    const folder = temporaryFolder('start-');
    writeFileSync(join(folder, 'a.jsonl'), '{}\n');
    const start = startCommand([folder, ...options()], none);
    expect(await start.code).toBe(1);
    expect(start.output()).toMatch(said);
  });
});
