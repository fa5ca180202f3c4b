/** Hostile lines with a version of MLflow that takes traces as files, large ones, and more cases of the fuzzer. */
import { hostileLines } from '../hostile/lines.ts';
import { isSmall, testFuzzer, testGoodLines } from '../hostile/mixed.ts';

testGoodLines('3.10.1', hostileLines().filter(isSmall));
testGoodLines('3.17.2', hostileLines());
testFuzzer(200);
