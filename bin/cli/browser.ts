/** Opens a page in the person's browser. */
import { spawn } from 'node:child_process';

/** The program that opens an address, and its arguments before it. */
const OPENERS: Partial<Record<NodeJS.Platform, [string, ...string[]]>> = {
  darwin: ['open'],
  win32: ['rundll32', 'url.dll,FileProtocolHandler'],
  linux: ['xdg-open'],
};

/** Whether somebody sits at the terminal, on a machine that can show a browser. */
export const hasBrowser = (env: NodeJS.ProcessEnv = process.env): boolean =>
  process.stdout.isTTY === true &&
  process.platform in OPENERS &&
  (process.platform !== 'linux' || Boolean(env.DISPLAY || env.WAYLAND_DISPLAY || env.WSL_DISTRO_NAME));

/** Starts the browser and does not wait for it. @returns whether it could be started */
export async function openInBrowser(url: string, openers = OPENERS): Promise<boolean> {
  const [program, ...args] = openers[process.platform] ?? [];
  if (program === undefined) return false;
  const browser = spawn(program, [...args, url], { detached: true, stdio: 'ignore' });
  browser.unref();
  return new Promise((resolve) => {
    browser.once('error', () => resolve(false));
    browser.once('spawn', () => resolve(true));
  });
}
