/** Permission to reach MLflow, by the kind of tracking URI. */
import { type Line, policiesOf, templateOf } from '../helpers/synth.ts';

const SERVER = 'arn:aws:sagemaker:eu-west-1:123456789012:mlflow-tracking-server/main';
const APP = 'arn:aws:sagemaker:eu-west-1:123456789012:mlflow-app/app-ABC123';
const SECRET = 'arn:aws:secretsmanager:eu-west-1:123456789012:secret:mlflow-AbCdEf';
const CALLERS = [
  'EvaluateTracesRole',
  'LogTracesRole',
  'PlanCapturesRole',
  'ReplayEvaluationRole',
  'ReplayPlanRole',
  'ReplayPublicationRole',
];
/** Of these the ones who write spans, or the files of a run. */
const WRITERS = ['LogTracesRole', 'ReplayEvaluationRole', 'ReplayPublicationRole'];

/** Lines of the roles that have any, beyond what every stack has. */
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
    'a tracking server, which takes no secret',
    { MLFLOW_TRACKING_URI: SERVER, MLFLOW_SECRET_ARN: SECRET },
    [['sagemaker-mlflow:*'], [SERVER]],
  ],
])('%s is for those who call it', (_, settings, line) => {
  const lines = mlflowLines(settings);
  expect(Object.keys(lines).toSorted()).toEqual(CALLERS);
  for (const role of CALLERS) expect(lines[role]).toEqual([line]);
});

it('a URL without a secret needs no permission', () => {
  expect(mlflowLines({ MLFLOW_TRACKING_URI: 'https://mlflow.example.com' })).toEqual({});
});

it.each([
  ['s3://artifacts', 'arn:aws:s3:::artifacts/*'],
  ['artifacts', 'arn:aws:s3:::artifacts/*'],
  ['s3://artifacts/team/mlflow/', 'arn:aws:s3:::artifacts/team/mlflow/*'],
  ['artifacts/team*', `arn:aws:s3:::artifacts/team${'$'}{*}/*`],
])('spans and files are put under %s, by those who write traces or end a run', (bucket, resource) => {
  expect(mlflowLines({ MLFLOW_ARTIFACT_BUCKET: bucket })).toEqual(
    Object.fromEntries(WRITERS.map((role) => [role, [[['s3:PutObject'], [resource]]]])),
  );
});
