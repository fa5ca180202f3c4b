/** The template of every variant of the settings in every partition. */
import { samplesOf, testTemplates } from '../helpers/cfn-lint.ts';
import { PLACES, type Place, settingsVariants } from '../helpers/settings-variants.ts';

testTemplates(() => Object.keys(settingsVariants(PLACES[0] as Place)).flatMap((variant) => samplesOf(variant)));
