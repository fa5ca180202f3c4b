import { mkdirSync } from 'node:fs';
import { capturedReplies } from '../../src/replay/compare/with-captured.ts';
import { replay } from './replay.ts';

/** Replays in this process, and compares each reply with the captured one. */
export async function replayCompared(...[source, target, directory, options]: Parameters<typeof replay>) {
  mkdirSync(directory, { recursive: true });
  const replies = capturedReplies(directory);
  const replayed = await replay(source, target, directory, options, {
    keepCaptured: true,
    read: (measured) => [replies.read(measured)],
  });
  return { ...replayed, captured: await replies.finish() };
}
