/** Recognizes field names whose value is a secret: `password`, `clientSecret`, `X-Api-Key`. The last word decides, so `token_count` is none. */
import { plainLetters } from './spelling.ts'

/** Each of them names a secret at the end of a name, alone or after other words. */
const NOUN =
  /(?:p[a4]ssw[o0]rd|passwd|passwort|kennwort|passphrase|passcode|pwd|secret|token|(?:api|access|secret|private|signing|signature|encryption|decryption|master|ssh|auth|account|shared|hmac|session|recovery|webhook|service|deploy|bot|admin|root)key|secretkeybase|credential|connectionstring|(?:seed|recovery|mnemonic|backup)(?:phrase|word)|mnemonic|(?:recovery|backup|otp|totp|mfa|2fa|twofactor|onetime|login|scratch|security|access)code|(?:db|database|user|admin|root|login|smtp|imap|mail|email|ftp|ssh|http|proxy|wifi|vpn|ldap|redis|mysql|mongo|pg|postgres|sudo|account|api|client|my)pass|(?:basic|http|proxy|api|registry|user|client|my)auth)s?$/
/** Short words, which also end other words: `pin` is no secret in `shopping`. */
const WORD = /^(?:cvv2?|cvc2?|csc|pin|otps?|totp|pw|jwt|bearer|creds?)$/
/** A whole name: a travel authorization and a boarding pass are no secrets. */
const WHOLE = /^(?:(?:proxy|http|x)?authorization|(?:set|session|auth|http)?cookies?|x?auth|pass)$/
/** Secrets that people choose and say: a number or an ordinary word may be one. */
const SAID =
  /(?:p[a4]ssw[o0]rd|passwd|passwort|kennwort|passcode|pwd|(?:otp|totp|mfa|2fa|twofactor|onetime|login|recovery|backup|security|access)code)s?$/
const SAID_WORD = /^(?:cvv2?|cvc2?|csc|pin|otps?|totp)$/
/** A key in digits. In the plural it is a count: `api_keys: 3`. */
const KEY =
  /(?:(?:api|access|secret|private|signing|encryption|master|auth|shared|hmac)key|(?:client|app|shared|signing|webhook|session)secret|(?:api|access|refresh|auth|bearer|session)token)$/
/** A mark of a place in a list is no secret: `next_page_token`. */
const PLACE = /(?:page|next|previous|continuation|cursor|sync|resume|skip|start|delta)tokens?$/
/** Words after the noun that do not change what it is. */
const FILLER =
  /^(?:values?|text|str|string|plain|plaintext|clear|cleartext|raw|new|old|current|previous|initial|temp|temporary|confirm|confirmation|repeat|again|retype|prod|production|dev|test|live|staging|base64|b64|hex|pem|encoded|primary|secondary|v?\d+)$/
/** One of these is in every name of a secret. */
const PART = new RegExp(`${NOUN.source.slice(0, -'s?$'.length)}|cv[vc]|csc|pin|otp|pw|jwt|bearer|cred|auth|cookie|pass`)
const NAME_CHARS_MAX = 100

/** The words of a name in lower case. */
function wordsOf(name: string): readonly string[] {
  return name
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z\d]+/)
    .filter((word) => word !== '')
}

/** Without fillers and numbers at the end, and without what the secret is for: `password_for_db`. */
function nounsOf(words: readonly string[]): readonly string[] {
  const about = words.findIndex((word, at) => at > 0 && /^(?:for|of|from)$/.test(word))
  const nouns = about === -1 ? [...words] : words.slice(0, about)
  while (nouns.length > 1 && !isSecretNoun(nouns, 'text') && FILLER.test(nouns.at(-1) ?? '')) nouns.pop()
  return nouns
}

/** The value next to a name. */
export type NamedValue = 'text' | 'number' | 'word'

/** Answers for names that were asked about: field names repeat, and every line of the log has the same (3 % of the CPU of a request). */
const known: Readonly<Record<NamedValue, Map<string, boolean>>> = {
  text: new Map(),
  number: new Map(),
  word: new Map(),
}
const KNOWN_MAX = 1_000

/**
 * Returns whether a value under this name is a secret, whatever it looks like. A number is one only where people write numbers, and an ordinary
 * word in a sentence only where people choose one.
 */
export function isSecretName(name: string, value: NamedValue = 'text'): boolean {
  if (name.length > NAME_CHARS_MAX) return decideName(name, value)
  const answers = known[value]
  const earlier = answers.get(name)
  if (earlier !== undefined) return earlier
  // Names come from callers too, so there is a limit.
  if (answers.size >= KNOWN_MAX) answers.clear()
  const answer = decideName(name, value)
  answers.set(name, answer)
  return answer
}

function decideName(name: string, value: NamedValue): boolean {
  const plain = plainLetters(name.slice(-NAME_CHARS_MAX))
  if (!PART.test(plain.replace(/[^a-z\d]+/gi, '').toLowerCase())) return false
  const words = wordsOf(plain)
  return isSecretNoun(words, value) || isSecretNoun(nounsOf(words), value)
}

function isSecretNoun(words: readonly string[], value: NamedValue): boolean {
  const last = (words.at(-1) ?? '').replace(/\d+$/, '')
  const joined = words.join('').replace(/\d+$/, '')
  if (value === 'word') return SAID.test(joined) || SAID_WORD.test(last) || /(?:phrase|^pw)$/.test(last)
  if (value === 'number') return SAID.test(joined) || SAID_WORD.test(last) || KEY.test(joined)
  return (NOUN.test(joined) && !PLACE.test(joined)) || WORD.test(last) || WHOLE.test(joined)
}
