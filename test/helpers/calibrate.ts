/** Runs `calibrate` as a process of its own, as a person does, with the arguments given. */
import { calibrateCommand } from '../../bin/commands/calibrate.ts';

await calibrateCommand().parseAsync(process.argv.slice(2), { from: 'user' });
