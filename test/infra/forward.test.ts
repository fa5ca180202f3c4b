/** The function that forwards files to Arthur. recorded.test.ts has the rule, the queue and the alarm, which exist only with a host. */
import { readForwardEnvironment } from '../../src/core/settings/environment.ts';
import { flattened, resourcesOfType, templateOf } from '../helpers/synth.ts';

const ARTHUR = {
  ARTHUR_HOST: 'https://app.arthur.ai',
  ARTHUR_MODEL_ID: 'some-model',
  ARTHUR_SECRET_ARN: 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:arthur-AbCdEf',
};

it('has an environment that the code accepts, without the settings of others', () => {
  const functions = resourcesOfType(templateOf(ARTHUR), 'AWS::Lambda::Function');
  const { Environment, Timeout, MemorySize } = flattened(functions.ForwardForwarderFunction?.Properties) as {
    Environment: { Variables: Record<string, string> };
    Timeout: number;
    MemorySize: number;
  };
  expect([Timeout, MemorySize]).toEqual([900, 1024]);
  expect(readForwardEnvironment(Environment.Variables)).toMatchObject({
    ...ARTHUR,
    ARTHUR_S3_PREFIX: 'my-endpoint/',
    ARTHUR_S3_SUFFIX: '.jsonl',
    BUDGET_TABLE: '<BudgetTable>',
    QUEUE_URL: '<ForwardEvents>',
    DEAD_LETTERS_URL: '<ForwardDeadLetters>',
    RETRY_SECONDS: 60,
    STACK_PREFIX: 'test',
  });
  // For the captures of a judge, which are not forwarded.
  expect(Environment.Variables).toHaveProperty('BEDROCK_MODEL_ID');
  expect(Environment.Variables).not.toHaveProperty('MLFLOW_TRACKING_URI');
});
