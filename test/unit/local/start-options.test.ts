import { parseStartOptions } from '../../../local/start-options.ts';

describe('the command line of npm start', () => {
  test('everything may be left out', () => {
    expect(parseStartOptions([])).toMatchObject({
      captures: undefined,
      bedrock: false,
      exit: false,
      awsPort: undefined,
    });
  });

  test('a path and every option', () => {
    const args =
      'my/captures --endpoint e --bedrock --region eu-west-1 --exit --port 4566 --mlflow-port 5000 --keep out';
    expect(parseStartOptions(args.split(' '))).toMatchObject({
      captures: 'my/captures',
      endpoint: 'e',
      bedrock: true,
      region: 'eu-west-1',
      exit: true,
      awsPort: 4566,
      mlflowPort: 5000,
      keep: 'out',
    });
  });

  test.each([
    [['--port', 'web'], /--port is not a port; got: web; expected: a whole number from 1 to 65535/],
    [['--mlflow-port', '70000'], /--mlflow-port is not a port; got: 70000/],
    [['a', 'b'], /Too many paths; got: a, b/],
    [['--verbose'], /--verbose/],
  ])('%j is refused', (args, message) => {
    expect(() => parseStartOptions(args)).toThrow(message);
  });
});
