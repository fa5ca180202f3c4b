/** The capture clients of Node and of boto3. `npm run test:slow` has that of aiobotocore. */
import { testCaptureClients } from '../helpers/capture-client-suite.ts';

testCaptureClients(['node', 'python']);
