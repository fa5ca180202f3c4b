/** `inference-monitor open`: the pages of MLflow and of the AWS console about a stack. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { LambdaClient } from '@aws-sdk/client-lambda';
import { type ConsoleLinks, consoleLinks } from '../../src/core/aws/console-links.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { exact } from '../../src/core/text/page.ts';
import { tracesUrl, traceUrl } from '../../src/mlflow/trace-url.ts';
import { webPageOf } from '../../src/mlflow/tracking-uri.ts';
import { mlflowOptions, type OpenedMlflow, openMlflow } from '../cli/mlflow.ts';
import { argument, command, type FlagsOf, option, options } from '../cli/options.ts';
import { type About, aboutLine, notice, print } from '../cli/output.ts';
import { type DeployedStack, machinesOf, openStack } from '../cli/stack.ts';
import { LOGIN_SECONDS, presignedMlflowUrl } from '../operate/aws-calls.ts';
import { findExecution } from '../operate/executions.ts';
import { TRACE_ID } from '../operate/find-traces.ts';

const OPTIONS = options(
  argument('[what]', 'the id of a trace, or the name of a run'),
  option('--dashboard', 'the dashboard of the stack in CloudWatch'),
  option('--print', 'print the address, and open no browser'),
  ...mlflowOptions('print the address as JSON, and open no browser'),
);
type OpenFlags = FlagsOf<typeof OPTIONS>;

export interface Output extends About {
  url: string;
  /** Seconds until the login in the address expires. Absent if the address contains no login. */
  expiresInSeconds?: number;
}

export default command('open', OPTIONS, openPage, { minutes: String(LOGIN_SECONDS / 60) });

async function openPage(flags: OpenFlags): Promise<void> {
  const page = await pageOf(flags);
  print<Output>(page, flags.json, [exact(page.url)]);
  if (flags.json) return;
  // Standard output has the address alone.
  notice(aboutLine(page));
  const minutes = (page.expiresInSeconds ?? 0) / 60;
  if (minutes > 0) notice(`This address contains a login: it works once, within ${minutes} minutes. Do not share it.`);
  if (flags.print || !hasBrowser()) return;
  if (!(await openInBrowser(page.url))) notice('No browser could be started: open the address yourself.');
}

/** @throws PermanentError `TwoPages`, and the errors of the page */
async function pageOf({ what, ...flags }: OpenFlags): Promise<Output> {
  if (what !== undefined && flags.dashboard) {
    const facts = { got: `${what} and --dashboard`, expected: 'one of them' };
    throw new PermanentError('TwoPages', 'Only one page can be opened', facts);
  }
  if (flags.dashboard) {
    const stack = await openStack(flags);
    return inConsole(stack, (links) => links.dashboard(resourceNames(stack.prefix).dashboard));
  }
  if (what?.startsWith('tr-') && !TRACE_ID.test(what)) {
    const facts = { got: what, expected: 'tr- and 32 hexadecimal digits, as MLflow shows it' };
    throw new PermanentError('NoSuchTrace', 'That is not the id of a trace', facts);
  }
  if (what !== undefined && !TRACE_ID.test(what)) return runPage(await openStack(flags), what);
  return mlflowPage(await openMlflow(flags), what);
}

/** @throws PermanentError `NoConsole` */
async function inConsole({ clients, about }: DeployedStack, link: (of: ConsoleLinks) => string): Promise<Output> {
  const links = consoleLinks(await clients.lambda.config.region());
  if (links !== undefined) return { ...about, url: link(links) };
  const got = `AWS_ENDPOINT_URL=${process.env.AWS_ENDPOINT_URL}`;
  const expected = 'a stack on AWS. Of a run, “inference-monitor show” prints what there is';
  throw new PermanentError('NoConsole', 'An emulated AWS has no console with pages to open', { got, expected });
}

async function runPage(stack: DeployedStack, run: string): Promise<Output> {
  const { executionArn } = await findExecution(stack.clients.sfn, machinesOf(stack), run);
  return inConsole(stack, (links) => links.execution(executionArn));
}

async function mlflowPage({ mlflow: { target }, experiment, about }: OpenedMlflow, id?: string): Promise<Output> {
  const pageOn = (server: string | undefined): string | undefined =>
    id === undefined ? tracesUrl(server, experiment.id) : traceUrl(server, experiment.id, id);
  const url = pageOn(webPageOf(target));
  if (url !== undefined || target.kind === 'url') return { ...about, url: url ?? target.baseUrl.href };
  const client = new LambdaClient({ region: target.region });
  const login = await presignedMlflowUrl(client, target.arn);
  // The login redirects to MLflow's page. Browsers keep the part after # if the redirect has no such part.
  const { hash } = new URL(pageOn('https://mlflow') ?? '');
  return { ...about, url: login + hash, expiresInSeconds: LOGIN_SECONDS };
}

// --------------------------------------------------------------------------------------------------------- browser

/** The program that opens an address, and its arguments before it. */
const OPENERS: Partial<Record<NodeJS.Platform, [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
  linux: ['xdg-open'],
};

/** Whether a user is at the terminal, on a machine that can show a browser. */
const hasBrowser = (): boolean => {
  const { DISPLAY, WAYLAND_DISPLAY, WSL_DISTRO_NAME } = process.env;
  const isShown = process.platform !== 'linux' || Boolean(DISPLAY || WAYLAND_DISPLAY || WSL_DISTRO_NAME);
  return process.stdout.isTTY === true && isShown;
};

/** Starts the browser and does not wait for it. @returns whether it could be started */
async function openInBrowser(url: string): Promise<boolean> {
  const [program, ...args] = OPENERS[process.platform] ?? [];
  if (program === undefined) return false;
  const browser = spawn(program, [...args, url], { detached: true, stdio: 'ignore' });
  browser.unref();
  return once(browser, 'spawn')
    .then(() => true)
    .catch(() => false);
}
