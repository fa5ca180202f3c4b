/** Finding a deployed stack by its prefix, in the emulator's Parameter Store. */

import { type AwsClients, destroyClients } from '../../bin/operate/aws-clients.ts';
import { readStackOutputs } from '../../bin/operate/stack-outputs.ts';
import { emulatedClients } from '../../local/servers/emulated-clients.ts';
import { type MiniStack, startMiniStack } from '../../local/servers/ministack.ts';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { OUTPUT_PARAMETERS, outputPath } from '../../src/core/contract/names.ts';

let ministack: MiniStack;
let clients: AwsClients;

const put = (prefix: string, name: string): Promise<object> =>
  callAws(clients.lambda, 'ssm', 'PutParameter', {
    Name: outputPath(prefix) + name,
    Value: `${name} of ${prefix}`,
    Type: 'String',
  });

beforeAll(async () => {
  ministack = await startMiniStack();
  clients = emulatedClients(ministack);
  for (const prefix of ['prod', 'prod-eu']) {
    for (const name of Object.values(OUTPUT_PARAMETERS)) await put(prefix, name);
  }
  await put('half', OUTPUT_PARAMETERS.workBucket);
});

afterAll(async () => {
  destroyClients(clients);
  await ministack.stop();
});

it('reads the outputs of this prefix alone', async () => {
  const outputs = await readStackOutputs(clients, 'prod');
  const written = Object.entries(OUTPUT_PARAMETERS).map(([field, name]) => [field, `${name} of prod`]);
  expect(outputs).toEqual({ prefix: 'prod', ...Object.fromEntries(written) });
});

it('says what a deployment that has not finished lacks', async () => {
  await expect(readStackOutputs(clients, 'half')).rejects.toThrow(
    /^The deployment of half is incomplete; got: .*stateMachineArn, /,
  );
});
