/** The commands for a running stack, on a deployed one that the suites share. */
import './traces.ts';
import './doctor.ts';
import './runs.ts';
import './unfinished.ts';
import './ground-truth.ts';
import './labels.ts';
import './people-labels.ts';
import './calls.ts';
