/** Amounts of credit in USD. One USD is 1,000,000 CU (gateway.md, "Credit Units"), so a milli-CU is a nano-USD. */
import { parseDecimal, productHalfUp } from "sluice-gateway/services";

const nanoUsdPerMilliCu = { digits: 1_000_000n, places: 0 };

export function valueUsd(milliCu: number): string {
  return decimal(BigInt(milliCu));
}

/** Rounds half up to a nano-USD. `usdPerCu`: the price of the plan, undefined if the plan has no overage. */
export function overageUsd(milliCu: number, usdPerCu: string | undefined): string {
  return decimal(overageNanoUsd(milliCu, usdPerCu));
}

export function overageSumUsd(
  parts: readonly { readonly milliCu: number; readonly usdPerCu: string | undefined }[],
): string {
  return decimal(
    parts.reduce((sum, { milliCu, usdPerCu }) => sum + overageNanoUsd(milliCu, usdPerCu), 0n),
  );
}

function overageNanoUsd(milliCu: number, usdPerCu: string | undefined): bigint {
  const price = usdPerCu === undefined ? undefined : parseDecimal(usdPerCu);
  return price === undefined ? 0n : productHalfUp(BigInt(milliCu), price, nanoUsdPerMilliCu);
}

function decimal(nanoUsd: bigint): string {
  const digits = String(nanoUsd).padStart(10, "0");
  const fraction = digits.slice(-9).replace(/0+$/, "");
  const whole = digits.slice(0, -9);
  return fraction === "" ? whole : `${whole}.${fraction}`;
}
