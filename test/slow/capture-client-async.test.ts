/** The capture client of aiobotocore. */
import { testCaptureClients } from '../helpers/capture-client-suite.ts';

testCaptureClients(['aiobotocore']);
