/** Hostile lines with a version of MLflow that takes traces as files, and more cases of the fuzzer. */
import { hostileLines } from '../hostile/lines.ts';
import { testFuzzer, testGoodLines } from '../hostile/mixed.ts';

// Large lines behave the same with every version.
testGoodLines(
  '3.10.1',
  hostileLines().filter(({ line }) => line.length < 50_000),
);
testFuzzer(200);
