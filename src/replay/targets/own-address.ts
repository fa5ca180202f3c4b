/** Recognises addresses of the machine itself and of its link, in every form that a socket connects to. */
import { BlockList, isIPv6 } from 'node:net';

/** Unspecified (connects to loopback), loopback, link-local: Lambda's runtime API and the credentials of instances are there. */
const OWN_V4 = ['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16'];
/** Prefixes of 96 bits before an IPv4 address: compatible, NAT64, translated. The mapped form is checked by `BlockList` itself. */
const BEFORE_V4 = ['::', '64:ff9b::', '::ffff:0:'];

const own = new BlockList();
for (const block of OWN_V4) {
  const [address = '', length] = block.split('/');
  const bits = Number(length);
  own.addSubnet(address, bits, 'ipv4');
  for (const prefix of BEFORE_V4) own.addSubnet(`${prefix}${address}`, 96 + bits, 'ipv6');
  const hex = Buffer.from(address.split('.').map(Number)).toString('hex');
  // 6to4.
  own.addSubnet(`2002:${hex.slice(0, 4)}:${hex.slice(4)}::`, 16 + bits, 'ipv6');
}
own.addSubnet('fe80::', 10, 'ipv6');
// NAT64 of a network's own, whose IPv4 address may be at several places; and the services of AWS on the link.
own.addSubnet('64:ff9b:1::', 48, 'ipv6');
own.addSubnet('fd00:ec2::', 32, 'ipv6');

/** Whether an IP address is loopback, link-local or unspecified, also where an IPv6 address contains it. */
export const isOwnAddress = (address: string): boolean => own.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
