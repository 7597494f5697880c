import { isObject, stableJson } from "sluice-gateway/internal/toolkit";
import { parseDecimal, productHalfUp } from "sluice-gateway/services";
import type { FinalAnswer, Session } from "../client/client.ts";
import { readOffer } from "../client/cost.ts";

export function priceText(offer: unknown): string {
  if (!isObject(offer)) return "unknown";
  const { coefficient, pricePerTokenNano, classes } = offer;
  const price = classes === undefined ? pricePerTokenNano : JSON.stringify(classes);
  return `${String(price)} nano × ${String(coefficient)}/1000`;
}

/** `maxPriceNano`: a decimal; any price is accepted without it. */
export function offerFault(offer: unknown, maxPriceNano: string | undefined): string | undefined {
  const read = readOffer(offer);
  if (read === undefined) return "the gateway does not offer a price that can be read";
  if (maxPriceNano === undefined) return undefined;
  const { coefficient, pricePerTokenNano, classes } = read;
  const prices =
    classes === undefined ? [pricePerTokenNano] : Object.values<string>({ ...classes });
  const isHigher = prices.some((price) => exact(price, coefficient) > exact(maxPriceNano, 1000));
  return isHigher
    ? `the price of a token, ${priceText(offer)}, is above the maximum of ${maxPriceNano} nano`
    : undefined;
}

/** Returns price × count × 10^30, which is a whole number: a decimal has at most 30 places. */
function exact(price: string, count: number): bigint {
  const whole = { digits: 10n ** 30n, places: 0 };
  // The price has been validated.
  return productHalfUp(BigInt(count), parseDecimal(price) ?? whole, whole);
}

/**
 * Returns the check that a bill has failed, and why. A bill is right if the enclave has signed its counts, its price is
 * the one that was offered in this session, and its amount is counts × price × rate.
 */
export function billFault(
  final: FinalAnswer,
  session: Pick<Session, "offer" | "assurance">,
): string | undefined {
  const { verified, unverifiedReason, checks, pricing, usedCUMilli, recomputedCUMilli } = final;
  const isSimulated = unverifiedReason === "simulated" && session.assurance === "simulated";
  if (!verified && !isSimulated) {
    const failed = checks.find(({ result }) => result === "fail");
    return `${failed?.name ?? "report"}: ${failed?.why ?? unverifiedReason ?? "not verified"}`;
  }
  const offer = readOffer(session.offer);
  if (pricing === undefined || offer === undefined) return "price: the bill has no price";
  const isOffered =
    pricing.pricePerTokenNano === offer.pricePerTokenNano &&
    stableJson(pricing.classes ?? null) === stableJson(offer.classes ?? null) &&
    pricing.coefficient <= offer.coefficient;
  if (!isOffered) {
    return `price: ${priceText(session.offer)} was offered, and ${priceText(pricing)} was billed`;
  }
  return usedCUMilli === recomputedCUMilli
    ? undefined
    : `bill: ${usedCUMilli} milli-CU were charged, but the counts and prices give ${recomputedCUMilli ?? "nothing"}`;
}
