/** The configuration of an AWS client for an emulator, which takes any credentials. */
export const emulated = (endpoint: string, region = 'us-east-1') => ({
  ...{ endpoint, region, forcePathStyle: true },
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
});
