/** The command line of `npm start`. */
import { resolve } from 'node:path';
import { parseStartOptions } from '../../../local/start/start-options.ts';

describe('the command line of npm start', () => {
  test('has only optional arguments', () => {
    expect(parseStartOptions([])).toMatchObject({
      captures: undefined,
      bedrock: false,
      exit: false,
      awsPort: undefined,
    });
  });

  test('parses a path and every option', () => {
    const args =
      'my/captures --endpoint e --bedrock --region eu-west-1 --exit --port 4566 --mlflow-port 5000 --keep out';
    delete process.env.INIT_CWD;
    expect(parseStartOptions(args.split(' '))).toMatchObject({
      captures: resolve('my/captures'),
      endpoint: 'e',
      bedrock: true,
      region: 'eu-west-1',
      exit: true,
      awsPort: 4566,
      mlflowPort: 5000,
      keep: resolve('out'),
    });
  });

  test('resolves paths from the folder where npm was called', () => {
    const { INIT_CWD } = process.env;
    process.env.INIT_CWD = '/somewhere/else';
    try {
      expect(parseStartOptions(['../captures']).captures).toBe(resolve('/somewhere/captures'));
      expect(parseStartOptions(['/absolute']).captures).toBe(resolve('/absolute'));
    } finally {
      if (INIT_CWD === undefined) delete process.env.INIT_CWD;
      else process.env.INIT_CWD = INIT_CWD;
    }
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
