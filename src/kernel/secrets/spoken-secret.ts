/** Decides whether what stands next to the name of a secret in a text is the secret, or a word about it: "is swordfish", "is stored in Vault". Pure. */
import { isSecretReference } from './reference.ts'
import { isSecretName } from './secret-name.ts'

/** What stands for a value in a text about it. */
const PLACEHOLDER =
  /^(?:[*x.•_-]+|\[[a-z _.-]*\]?|<[a-z _.-]*>?|\$(?:\d|[{(].*)|\{+[\w .$-]*\}*|%\w+%|your(?:[-_. ]?(?:own|new|old|api|access|client|db|secret|token|key|password|passwd|passcode|pin|value|here|name|user))*|null|none|nil|true|false|undefined|unknown|required|optional|missing|empty|hidden|redacted|string|str|text|boolean|bool|number|integer|int|object|void|secret|password|passwd|token|key|value|changeme)$/i
const VARIABLE = /^\$[A-Z_][A-Z0-9_]*$/
const DATE = /^\d{4}-\d\d-\d\d/
/** A time, or a line and a column. */
const POSITION = /^\d+(?::\d+)+$/
const ALGORITHM = /^(?:sha|md|hs|rs|es|aes|rsa|hmac|base|utf|oauth|rfc|iso|pbkdf|argon)[-_]?\d/i
const WEB_ADDRESS = /^https?:\/\/[\w-]+(?:\.[\w-]+)+(?:[/:?#]|$)/i

/** Words that follow "the password is" in a sentence that does not tell the password. */
const PROSE = new Set(
  `a about above absent accepted access active actually again all almost also always an and another any anyway apparently as at available back bad because
  before behind being below best better between blank both broken but by called case changed chosen clear common complex confidential correct critical
  crucial currently dead default different done down due each easy either else empty encrypted enough essential even every everything exactly expected
  false fine for forgotten found free from full given going gone good great guess half hard hashed held here hers hidden his how identical if important in
  inactive inside insecure invalid it its just kept key known later like likely literally live local long longer lost made mandatory maybe me meant mine
  missing more most my necessary needed never new next no nobody none nor not nothing now null obvious of off often ok okay old on once one only open or
  other our ours out over own per perfect permanent plain poor possible present private probably public put quite random rather ready really required reset
  right safe same secret secure sensitive sent set short shown similar simple so some somebody something somewhere soon sound static still stolen strange
  strong stronger stuck such sure taken temporary than that the their theirs them then there these they this those to today together token tomorrow too true
  two under undefined unique unknown unsafe unset until up useless usual usually valid very via visible visibly vital vulnerable weak weaker what whatever
  when where which while who whose why with within without working worthless written wrong yes yet you your yours zero see ask contact follow use enter keep
  continue proceed login access minimum maximum at-least must may can should shall will would could do does did has have had is was are were be been
  hint length policy strength rules value reset-only case-sensitive pending stale late early sometimes nowhere everywhere anything anyone everyone someone
  somehow sometime optional confirmed disabled enabled expired final first second last left n/a tbd todo`.split(/\s+/),
)
/** Participles, adverbs and adjectives. */
const PROSE_END = /(?:[^aeiou]ed|[aeiou]{1,2}[a-z]?ed|ing|ly|able|ible|ful|less|ient|ical|ary|ous|ive)$/i
/** Words after which a sentence goes on although the value has ended. */
const AFTER_VALUE =
  /^["'`”’)\]}*_]{0,4}(?:\s{0,9}(?:$|[\r\n]|[,;!?|&/]|\.(?:\s|$))|\s+(?:and|or|but|so|please|for|on|at|in|with|user|username|login|thanks|thank|if|until|since|because|now|then|which|it|i|we|you|he|she|they)\b)/i

/** "128 bits" is a length. */
const UNIT =
  /^\s?(?:%|(?:bits?|bytes?|chars?|characters?|digits?|letters?|words?|seconds?|minutes?|hours?|days?|weeks?|months?|years?|times|attempts?|people|users?)\b)/i

/** What passes or fails: `pass: lint, types`. */
const CHECKED =
  /^(?:tests?|lint\w*|builds?|types?|typecheck|unit|smoke|e2e|integration|regression|checks?|suites?|steps?|reviews?|audits?|gates?|compile|format|docs|coverage|green|security|performance|load|pass|fail|skipped|total)$/i

/** Digits, symbols or mixed case: no word of a sentence, and not `base64-encoded`. */
export function isNoWord(text: string): boolean {
  if (/-(?:[a-z]{3,}(?:ed|ing)|based|only|like)$/i.test(text)) return false
  return /\d|[^\p{L}\-./'’:]|\p{Ll}\p{Lu}/u.test(text) || text.length >= 20
}

const AUTH_METHOD =
  /^(?:none|no|off|on|basic|bearer|digest|negotiate|ntlm|oauth ?(?:2(?:\.0)?)?|oidc|saml ?(?:2(?:\.0)?)?|ldap|jwt|mtls|kerberos|sso|apikey|api[-_]key|token|password|required|optional|anonymous|public|private|default|inherit)$/i

/** `auth: basic` says how to log in. */
export function isAuthMethod(name: string, value: string): boolean {
  return /auth$/i.test(name) && AUTH_METHOD.test(value)
}

/** Without the punctuation and the markup around it. */
function bareOf(value: string): string {
  return value.replace(/(?<![.,;:!?)\]}*|])[.,;:!?)\]}*|]+$/, '').replace(/^[([{<*]+(?=\w)/, '')
}

export function isPlaceholder(value: string): boolean {
  return (
    PLACEHOLDER.test(value) ||
    VARIABLE.test(value) ||
    (/^\$[a-z_]\w*$/.test(value) && isSecretName(value.slice(1))) ||
    isSecretReference(value)
  )
}

/** Returns whether a value is the last word of a sentence, or the next word begins another clause. */
export function endsSentence(value: string, rest: string): boolean {
  return AFTER_VALUE.test(value.slice(bareOf(value).length) + rest)
}

function isOtherValue(bare: string): boolean {
  return isPlaceholder(bare) || [DATE, POSITION, ALGORITHM, WEB_ADDRESS].some((other) => other.test(bare))
}

/** `rest` is the text after the value. */
export function isSpokenSecret(value: string, rest: string): boolean {
  const bare = bareOf(value)
  if (bare.length < 3) return false
  if (!isNoWord(bare)) {
    const word = bare.toLowerCase()
    const isProse = PROSE.has(word) || PROSE_END.test(word)
    return (
      (!isProse && endsSentence(value, rest) && !isPlaceholder(bare)) ||
      (/^ [a-z]{3}/.test(rest) && isPhrase(value + rest))
    )
  }
  if (isOtherValue(bare)) return false
  return !/^\d+$/.test(bare) || !UNIT.test(rest)
}

/** "correct horse battery staple": words that form no sentence. */
const PHRASE = /^(?:[a-z]{3,12} ){3,23}[a-z]{3,12}(?=\s*(?:$|[\n.!?,;]))/

function isPhrase(text: string): boolean {
  const words = PHRASE.exec(text)?.[0].split(' ') ?? []
  const prose = words.filter((word) => PROSE.has(word) || PROSE_END.test(word))
  return words.length > 0 && prose.length <= words.length / 4
}

/** A value that a program would read: `name=value`, `"name":"value"`, `--name value`. */
export function isAssignedSecret(name: string, value: string, isStrong: boolean): boolean {
  const bare = bareOf(value)
  if (bare === '' || isPlaceholder(bare) || isAuthMethod(name, bare)) return false
  if (/^\d+$/.test(bare)) return isSecretName(name, 'number') && (isStrong || bare.length >= 3)
  if (isStrong) return true
  const isSaid = isSecretName(name, 'word')
  return bare.length >= (isSaid ? 2 : 4) && (isSaid || !/(?:auth|cookies?|codes?)$/i.test(name) || isNoWord(bare))
}

/** `name: value`, "name is value". The value may be an ordinary word. After a verb only what is no word counts: names that people say have rules of their own. */
export function isWrittenSecret(name: string, value: string, rest: () => string, isSign: boolean): boolean {
  const bare = bareOf(value)
  const isSaid = isSecretName(name, 'word')
  if (!isNoWord(bare))
    return isSign && (isSaid || (/^pass$/i.test(name) && !CHECKED.test(bare))) && isSpokenSecret(value, rest())
  if (/^\d+$/.test(bare)) return bare.length >= 3 && isSecretName(name, 'number') && !UNIT.test(rest())
  // `pass: 95%` is the result of a test.
  if (isAuthMethod(name, bare) || (/^pass$/i.test(name) && !/[a-z]/i.test(bare))) return false
  if (/pin\d*$/i.test(name) || isOtherValue(bare)) return false
  return bare.length >= (isSaid ? 3 : 5)
}
