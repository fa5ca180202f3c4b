/** The addresses that a replay in the cloud never connects to. */
import { isOwnAddress } from '../../../src/replay/targets/own-address.ts';

test.each([
  '127.0.0.1',
  '127.255.255.254',
  '0.0.0.0',
  '169.254.169.254',
  '169.254.100.1',
  '::',
  '::1',
  'fe80::1',
  'fe80::1%eth0',
  'febf:ffff::1',
  '::ffff:127.0.0.1',
  '::ffff:a9fe:a9fe',
  '::ffff:0:127.0.0.1',
  '::127.0.0.1',
  '64:ff9b::127.0.0.1',
  '64:ff9b::a9fe:a9fe',
  '64:ff9b:1::1',
  '2002:7f00:1::1',
  '2002:a9fe:a9fe::',
  'fd00:ec2::254',
])('%s is one', (address) => {
  expect(isOwnAddress(address)).toBe(true);
});

test.each([
  '10.0.0.1',
  '172.31.0.7',
  '192.168.1.1',
  '100.64.0.1',
  '8.8.8.8',
  '128.0.0.1',
  '169.253.255.255',
  'fd12:3456::1',
  'fec0::1',
  '2600:1f18::1',
  '::ffff:10.0.0.1',
  '64:ff9b::10.0.0.1',
  '2002:a00:1::1',
])('%s is none', (address) => {
  expect(isOwnAddress(address)).toBe(false);
});
