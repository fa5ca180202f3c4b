/**
 * Returns the public address of an AWS service.
 *
 * @param service the first part of its host name, such as `sns` or `runtime.sagemaker`
 */
export const awsUrl = (service: string, region: string): string =>
  `https://${service}.${region}.${region.startsWith('cn-') ? 'amazonaws.com.cn' : 'amazonaws.com'}`;
