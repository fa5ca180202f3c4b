/**
 * Judging a cloud replay and logging it to MLflow. The functions run in this process, everything else is a real server, which
 * the suites share.
 */
import './whole.ts';
import './assessments.ts';
