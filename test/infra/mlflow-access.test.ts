/** Permission to call MLflow, by the kind of tracking URI. */
import { type Line, policiesOf, templateOf } from '../helpers/synth.ts';

const SERVER = 'arn:aws:sagemaker:eu-west-1:123456789012:mlflow-tracking-server/main';
const APP = 'arn:aws:sagemaker:eu-west-1:123456789012:mlflow-app/app-ABC123';
const SECRET = 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:mlflow-AbCdEf';
const CALLERS = [
  'EvaluateTracesRole',
  'GroundTruthJoinLabelsRole',
  'LogTracesRole',
  'PlanCapturesRole',
  'ReplayEvaluationRole',
  'ReplayPlanRole',
  'ReplayPublicationRole',
];
/** The roles among them that write spans or the files of a run. */
const WRITERS = ['LogTracesRole', 'EvaluateTracesRole', 'ReplayEvaluationRole', 'ReplayPublicationRole'];

/** The permissions in addition to those of every stack, for the roles that have any. */
function mlflowLines(settings: Record<string, string>): Record<string, Line[]> {
  const usual = policiesOf(templateOf());
  const found = Object.entries(policiesOf(templateOf(settings))).map(([role, lines]): [string, Line[]] => {
    const known = new Set(usual[role]?.map((line) => JSON.stringify(line)));
    return [role, lines.filter((line) => !known.has(JSON.stringify(line)))];
  });
  return Object.fromEntries(found.filter(([, lines]) => lines.length > 0));
}

it.each<[string, Record<string, string>, Line]>([
  ['a tracking server', { MLFLOW_TRACKING_URI: SERVER }, [['sagemaker-mlflow:*'], [SERVER]]],
  ['an app', { MLFLOW_TRACKING_URI: APP }, [['sagemaker:CallMlflowAppApi'], [APP]]],
  ['a URL with a secret', { MLFLOW_SECRET_ARN: SECRET }, [['secretsmanager:GetSecretValue'], [SECRET]]],
  [
    'a tracking server, which needs no secret',
    { MLFLOW_TRACKING_URI: SERVER, MLFLOW_SECRET_ARN: SECRET },
    [['sagemaker-mlflow:*'], [SERVER]],
  ],
])('grants %s to the roles that call it', (_, settings, line) => {
  const lines = mlflowLines(settings);
  expect(Object.keys(lines).toSorted()).toEqual(CALLERS);
  for (const role of CALLERS) expect(lines[role]).toEqual([line]);
});

it('grants nothing for a URL without a secret', () => {
  expect(mlflowLines({ MLFLOW_TRACKING_URI: 'https://mlflow.example.com' })).toEqual({});
});

it.each([
  ['s3://artifacts', 'arn:aws:s3:::artifacts/*'],
  ['artifacts', 'arn:aws:s3:::artifacts/*'],
  ['s3://artifacts/team/mlflow/', 'arn:aws:s3:::artifacts/team/mlflow/*'],
  ['artifacts/team*', `arn:aws:s3:::artifacts/team${'$'}{*}/*`],
])('grants writing to %s to the roles that write traces or end a run, in one account', (bucket, resource) => {
  const granted = (account: string) => {
    const condition = { StringEquals: { 'aws:ResourceAccount': account } };
    return Object.fromEntries(WRITERS.map((role) => [role, [[['s3:PutObject'], [resource], condition]]]));
  };
  expect(mlflowLines({ MLFLOW_ARTIFACT_BUCKET: bucket })).toEqual(granted('123456789012'));
  const elsewhere = { MLFLOW_ARTIFACT_BUCKET: bucket, MLFLOW_ARTIFACT_ACCOUNT_ID: '210987654321' };
  expect(mlflowLines(elsewhere)).toEqual(granted('210987654321'));
});
