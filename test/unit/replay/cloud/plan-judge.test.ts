/** Tests of how a replay in the cloud names its judge in `replay.json`. */
import { planJudge } from '../../../../src/replay/cloud/plan/plan-evaluation.ts';
import { withVariables } from '../../../helpers/aws-answers.ts';

const model = 'vendor.unpriced-model';
const planned = () =>
  planJudge({ judge: { budgetUsd: 5 } } as never, {
    environment: { BEDROCK_MODEL_ID: model, EVALUATION_BUDGET_USD: 5, JUDGE_PRICES: {}, MLFLOW_EXPERIMENT_NAME: 'e' },
    checkJudgeModel: async () => undefined,
    mlflow: () => Promise.reject(new Error('not asked')),
  });

test('a stand-in is not named as the model, and needs no price', () =>
  withVariables({ AWS_ENDPOINT_URL_BEDROCK_RUNTIME: 'http://127.0.0.1:1/stand-in' }, async () => {
    expect(await planned()).toEqual({ model: `stand-in for bedrock:/${model}`, budgetUsd: 5 });
  }));

test('a model whose price is unknown is refused', async () => {
  await expect(planned()).rejects.toMatchObject({ name: 'JudgePriceUnknown' });
});
