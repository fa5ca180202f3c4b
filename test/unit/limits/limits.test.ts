/** The limits over a table in memory. */
import { MemoryTable } from '../../doubles/memory-table.ts';
import { limitsSuite } from '../../helpers/limits-suite.ts';

limitsSuite(async () => ({ client: new MemoryTable().client, name: 't' }));
