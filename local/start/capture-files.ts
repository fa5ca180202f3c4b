/** Finds a person's capture files on disk and says where in the capture bucket each belongs. */
import { createReadStream, existsSync, realpathSync, type Stats, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, join, relative, resolve, sep } from 'node:path';
import { createInterface } from 'node:readline';

export interface CaptureFile {
  /** Absolute path. */
  path: string;
  /** Key in the capture bucket: `<endpoint>/<variant>/yyyy/mm/dd/hh/<file>.jsonl`. */
  key: string;
  bytes: number;
}

/** The files of one endpoint; a stack watches one endpoint. */
export interface EndpointCaptures {
  endpoint: string;
  files: CaptureFile[];
}

/** The endpoint of files that stand outside SageMaker's layout, unless the person names it. */
const DEFAULT_ENDPOINT = 'my-endpoint';

/** SageMaker calls a variant so when nobody names it. */
const DEFAULT_VARIANT = 'AllTraffic';

const SUFFIX = '.jsonl';

/** A record's time stands at its end, so whole lines are read; of a file without any, this many are looked at. */
const LINES_LOOKED_AT = 20;
/** A payload of 25 MB in base64 on both sides is a line of 67 MB; what is longer is quarantined anyway. */
const BYTES_LOOKED_AT = 72 * 1024 * 1024;

/** The end of a path as Data Capture writes it: endpoint, variant, year, month, day, hour, file. */
const LAYOUT = /([^/]+)\/([^/]+)\/\d{4}\/(?:0[1-9]|1[0-2])\/(?:0[1-9]|[12]\d|3[01])\/(?:[01]\d|2[0-3])\/[^/]+\.jsonl$/;

/**
 * The capture files at a path, by endpoint, each with its key. SageMaker's layout is kept wherever in the path it
 * stands; any other file goes under `<endpoint>/AllTraffic/` and the hour of its first record.
 *
 * @param path a `.jsonl` file or a folder that holds some, at any depth
 * @param endpoint endpoint of all the files, in the place of the one in their paths
 * @throws Error when the path does not exist or holds no capture file
 */
export async function findCaptures(path: string, endpoint?: string): Promise<EndpointCaptures[]> {
  if (!existsSync(path)) {
    throw new Error(
      `The captures were not found; got: ${resolve(path)}; expected: a ${SUFFIX} file or a folder that holds some`,
    );
  }
  const root = realpathSync(path);
  const stats = statSync(root);
  const paths = stats.isDirectory() ? await filesBelow(root) : root.endsWith(SUFFIX) ? [root] : [];
  if (paths.length === 0) {
    throw new Error(
      `No capture files; got: ${root} ${stats.isDirectory() ? `holds no file that ends in ${SUFFIX}` : `does not end in ${SUFFIX}`}; expected: Data Capture's JSON lines, one record a line, unpacked, in files named *${SUFFIX}`,
    );
  }
  const groups = new Map<string, EndpointCaptures>();
  const taken = new Set<string>();
  for (const file of paths) {
    const place = await placeInBucket(file, stats.isDirectory() ? root : join(root, '..'), endpoint);
    const key = unlessTaken(place.key, taken);
    const group = groups.get(place.endpoint) ?? { endpoint: place.endpoint, files: [] };
    groups.set(place.endpoint, group);
    group.files.push({ path: file, key, bytes: statSync(file).size });
  }
  return [...groups.values()];
}

async function filesBelow(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .map((entry) => ({ path: join(entry.parentPath, entry.name), name: entry.name }))
    .filter(({ name, path }) => name.endsWith(SUFFIX) && statSync(path, { throwIfNoEntry: false })?.isFile())
    .map(({ path }) => path)
    .sort();
}

async function placeInBucket(
  file: string,
  root: string,
  endpoint?: string,
): Promise<{ endpoint: string; key: string }> {
  const layout = LAYOUT.exec(file.split(sep).join('/'));
  if (layout) {
    const [key, found] = layout as unknown as [string, string];
    return endpoint ? { endpoint, key: endpoint + key.slice(found.length) } : { endpoint: found, key };
  }
  const owner = endpoint ?? DEFAULT_ENDPOINT;
  const hour = await hourOfFirstRecord(file);
  const name = relative(root, file).split(sep).join('-');
  return { endpoint: owner, key: `${owner}/${DEFAULT_VARIANT}/${hourPath(hour)}/${name || basename(file)}` };
}

/** Two files of other folders may come to have the same name. */
function unlessTaken(key: string, taken: Set<string>): string {
  let free = key;
  for (let n = 2; taken.has(free); n += 1) free = `${key.slice(0, -SUFFIX.length)}-${n}${SUFFIX}`;
  taken.add(free);
  return free;
}

const hourPath = (time: Date): string => time.toISOString().slice(0, 13).replace(/[-T]/g, '/');

/** The time of the first record that has one, else the file's own. */
async function hourOfFirstRecord(file: string): Promise<Date> {
  const stats: Stats = statSync(file);
  const stream = createReadStream(file, { end: BYTES_LOOKED_AT });
  const lines = createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY });
  try {
    let looked = 0;
    for await (const line of lines) {
      const time = inferenceTime(line);
      if (time) return time;
      looked += 1;
      if (looked >= LINES_LOOKED_AT) break;
    }
  } finally {
    lines.close();
    stream.destroy();
  }
  return stats.mtime;
}

function inferenceTime(line: string): Date | undefined {
  try {
    const record = JSON.parse(line) as { eventMetadata?: { inferenceTime?: unknown } } | null;
    const captured = record?.eventMetadata?.inferenceTime;
    const time = typeof captured === 'string' ? new Date(captured) : undefined;
    return time && !Number.isNaN(time.getTime()) ? time : undefined;
  } catch {
    // Not JSON: the pipeline will quarantine it, with the reason.
    return undefined;
  }
}
