/** The endpoint that benchmarks replay to, as a process of its own: it tells when requests arrived. */
import { parseArgs } from 'node:util';
import { startStandInEndpoint } from '../../test/doubles/recording-endpoint.ts';

const { values } = parseArgs({ options: { port: { type: 'string' }, latency: { type: 'string' } } });
await startStandInEndpoint({ port: Number(values.port), latencyMs: Number(values.latency) });
