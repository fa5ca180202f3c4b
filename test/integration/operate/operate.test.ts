/** The commands for a running stack, on a deployed one that the suites share. */
import './runs.ts';
