/** The AWS calls in the bundles of the functions. The bundler keeps only the parts of the SDK that the code can reach. */
import { basename } from 'node:path';
import { build } from 'esbuild';

/** The prefix of a client's actions in IAM. */
const PREFIXES: Record<string, string> = {
  'client-bedrock': 'bedrock',
  'client-bedrock-runtime': 'bedrock',
  'client-dynamodb': 'dynamodb',
  'client-lambda': 'lambda',
  'client-s3': 's3',
  'client-sagemaker-runtime': 'sagemaker',
  'client-secrets-manager': 'secretsmanager',
  'client-sfn': 'states',
};

export interface Bundle {
  /** The operations that the bundle makes commands of, such as `s3:GetObject`. */
  calls: string[];
  /** The packages of the SDK's clients that make them, such as `client-s3`. */
  clients: string[];
  text: string;
}

/**
 * Bundles handlers by their folder under `lambda/`. One call of esbuild parses the SDK once for all. The SDK's own clients for
 * other credentials than a function's (SSO, STS) are left out.
 *
 * @throws Error if a client has no prefix here
 */
export async function bundlesOf(folders: readonly string[]): Promise<Record<string, Bundle>> {
  const { outputFiles, metafile } = await build({
    entryPoints: [...new Set(folders)].map((folder) => ({ in: `lambda/${folder}/handler.ts`, out: folder })),
    outdir: 'in-memory',
    bundle: true,
    write: false,
    metafile: true,
    format: 'esm',
    platform: 'node',
    target: 'node24',
    mainFields: ['module', 'main'],
    logLevel: 'error',
  });
  const inputs = Object.fromEntries(
    Object.entries(metafile.outputs).map(([path, output]) => [basename(path), Object.keys(output.inputs)]),
  );
  return Object.fromEntries(
    outputFiles.map(({ path, text }) => {
      const made = new Set([...text.matchAll(/\bnew (?:\w+\.)?([A-Z]\w*?)Command\d*\(/g)].map(([, name = '']) => name));
      const commands = (inputs[basename(path)] ?? []).flatMap((file) => {
        const [, client = '', operation = ''] =
          /@aws-sdk\/(client-[\w-]+)\/.*\/commands\/(\w+)Command\.js$/.exec(file) ?? [];
        if (!made.has(operation)) return [];
        if (PREFIXES[client] === undefined) throw new Error(`The prefix of ${client} in IAM is not known here`);
        return [{ client, call: `${PREFIXES[client]}:${operation}` }];
      });
      const calls = commands.map(({ call }) => call).toSorted();
      const clients = [...new Set(commands.map(({ client }) => client))].toSorted();
      return [basename(path, '.js'), { calls, clients, text }];
    }),
  );
}
