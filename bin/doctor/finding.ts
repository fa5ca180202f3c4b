/** What `doctor` says: one line for each check, with what to do about it. */

export interface Finding {
  /** `error`: the deployed stack would fail; `warning`: it may, or the check was not possible. */
  level: 'ok' | 'warning' | 'error';
  subject: string;
  message: string;
}

export const finding = (level: Finding['level'], subject: string, message: string): Finding => ({
  level,
  subject,
  message,
});

export const lineOf = ({ level, subject, message }: Finding): string =>
  `${level.padEnd(7)}  ${subject.padEnd(9)}  ${message}`;

const DENIED = /AccessDenied|Unauthorized|Forbidden|^403$/;

/** Runs a check. If it cannot be made, that is a warning, which names the action that a person lacks. */
export async function checked(subject: string, action: string, check: () => Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await check();
  } catch (error) {
    const { name, message } = error as Error;
    const [said = ''] = message.split('\n');
    const remedy = DENIED.test(name) ? `: allow yourself ${action}` : '';
    return [finding('warning', subject, `This could not be checked (${name}: ${said})${remedy}.`)];
  }
}
