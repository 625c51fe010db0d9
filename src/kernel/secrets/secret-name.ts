/** Recognizes field names whose value is a secret: `password`, `clientSecret`, `X-Api-Key`. The last word decides, so `token_count` is none. */

/** Each of them names a secret at the end of a name, alone or after other words. */
const NOUN =
  /(?:password|passwd|passwort|kennwort|passphrase|passcode|pwd|secret|token|apikey|accesskey|secretkey|privatekey|signingkey|encryptionkey|masterkey|sshkey|authkey|accountkey|sharedkey|credential|connectionstring|(?:seed|recovery|mnemonic)phrase|(?:db|database|user|admin|root|login|smtp|mail)pass)s?$/
/** Short words, which also end other words: `pin` is no secret in `shopping`. */
const WORD = /^(?:cvv|cvc|csc|pin|otp|totp|pw|jwt|bearer|creds)$/
/** A whole name: a travel authorization is no secret. */
const WHOLE = /^(?:(?:proxy|http|x)?authorization|(?:set|session|auth|http)?cookies?)$/
/** Secrets that people write as numbers. */
const NUMBER = /(?:password|passwd|passcode|pwd)$/
const NUMBER_WORD = /^(?:cvv|cvc|csc|pin|otp|totp)$/
/** A mark of a place in a list is no secret: `next_page_token`. */
const PLACE = /(?:page|next|previous|continuation|cursor|sync|resume|skip|start|delta)tokens?$/
/** Words after the noun that do not change what it is. */
const FILLER =
  /^(?:values?|text|plain|plaintext|raw|new|old|current|previous|confirm|confirmation|repeat|again|retype|prod|production|dev|test|live|staging|base64|b64|encoded|\d+)$/
const NAME_CHARS_MAX = 100

/** The words of a name in lower case, without fillers and numbers at the end. */
function wordsOf(name: string): readonly string[] {
  const words = name
    .slice(-NAME_CHARS_MAX)
    .normalize('NFKC')
    .replace(/([a-z\d])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z\d]+/)
    .filter((word) => word !== '')
  while (words.length > 1 && FILLER.test(words.at(-1) ?? '')) words.pop()
  return words
}

/** Answers for names that were asked about: field names repeat, and every line of the log has the same (3 % of the CPU of a request). */
const known = new Map<string, boolean>()
const KNOWN_MAX = 1_000

/** Returns whether a value under this name is a secret, whatever it looks like. A number is one only where people write numbers. */
export function isSecretName(name: string, isNumber = false): boolean {
  if (name.length > NAME_CHARS_MAX) return decideName(name, isNumber)
  const asked = isNumber ? `#${name}` : `.${name}`
  const answer = known.get(asked) ?? decideName(name, isNumber)
  // Names come from callers too, so there is a limit.
  if (known.size >= KNOWN_MAX) known.clear()
  known.set(asked, answer)
  return answer
}

function decideName(name: string, isNumber: boolean): boolean {
  const words = wordsOf(name)
  const last = (words.at(-1) ?? '').replace(/\d+$/, '')
  const joined = words.join('').replace(/\d+$/, '')
  if (isNumber) return NUMBER.test(joined) || NUMBER_WORD.test(last)
  return (NOUN.test(joined) && !PLACE.test(joined)) || WORD.test(last) || WHOLE.test(joined)
}
